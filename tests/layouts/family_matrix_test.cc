// BERT, T5 and Llama, trained on many layouts: bitwise equal where that is promised, equal to
// rounding elsewhere, with the memory and the messages that were planned.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compare.h"
#include "expectations.h"
#include "family_layouts.h"
#include "golden_digests.h"
#include "message_formulas.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;

// Bytes of a microbatch's streams that the rank's stage hands on to the next one. An encoder stage
// hands on its hidden states (the last one what it made of them), a decoder stage its hidden states
// and the encoder's output.
std::int64_t handed_on(const TrainConfig& c, int stage) {
  const bool is_16_bit = c.model.bf16 || c.model.fp16;
  const std::int64_t hidden = is_16_bit && !c.model.fp32_residual_connection ? 2 : 4;
  const std::int64_t encoded = is_16_bit ? 2 : 4;
  const std::int64_t row = c.layout.micro_batch_size * c.model.hidden_size;
  const std::int64_t split = c.layout.pipeline_model_parallel_split_rank;
  if (split == 0 || stage < split - 1) return hidden * c.data.seq_length * row;
  if (stage == split - 1) return encoded * c.data.seq_length * row;
  return (hidden * c.data.decoder_seq_length + encoded * c.data.seq_length) * row;
}

// What a rank of a pipeline with one chunk a rank sends in a step: a tensor-parallel group sends
// each stream once.
std::int64_t sent_over_pipeline(const TrainConfig& c, int rank) {
  const auto stage = static_cast<int>(rank_grid(c.layout).coordinates(rank).pipeline);
  const auto last = static_cast<int>(c.layout.pipeline_model_parallel_size) - 1;
  std::int64_t bytes = 0;
  if (stage < last) bytes += handed_on(c, stage);   // forward
  if (stage > 0) bytes += handed_on(c, stage - 1);  // its gradient, back
  return bytes * num_microbatches(c.layout) / c.layout.tensor_model_parallel_size;
}

void expect_messages_of_pipeline(const TrainingResult& result, const TrainConfig& config) {
  const bool has_one_chunk = config.layout.num_virtual_stages_per_pipeline_rank <= 1;
  if (config.layout.pipeline_model_parallel_size == 1 || !has_one_chunk) return;
  for (std::size_t rank = 0; rank < result.measured.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const auto& totals = result.measured[rank].recorded.by_key();
    EXPECT_EQ(totals.at({"pp", "send"}).bytes, sent_over_pipeline(config, static_cast<int>(rank)));
  }
}

// Made once: it takes long to cover all pairs.
const std::vector<Layout>& covering_layouts_of(const std::string& family) {
  static std::map<std::string, std::vector<Layout>> known;
  const auto [found, is_new] = known.try_emplace(family);
  if (is_new) found->second = family_layouts(family, false);
  return found->second;
}

class FamilyMatrix : public testing::TestWithParam<const char*> {};

TEST_P(FamilyMatrix, TrainsAsOneRankDoes) {
  Trainings trainings;
  const auto layouts =
      is_nightly() ? family_layouts(GetParam(), true) : covering_layouts_of(GetParam());
  ASSERT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(name_of(layout));
    const TrainingResult result = expect_training(layout, kSteps, trainings);
    expect_messages_of_pipeline(result, *legal_config(layout));
    expect_golden_digest(result, layout);
    // The bits of no pipeline: how near these are is the flat layouts' business.
    if (layout.pipeline > 1) continue;
    expect_close(result, trainings.of(on_one_rank(layout), kSteps), layout);
  }
}

TEST_P(FamilyMatrix, HasEveryPlaceScheduleAndKindOfStorage) {
  std::set<std::pair<int, int>> replicas, stages;
  std::set<std::string> schedules;
  std::set<std::tuple<StorageType, bool, bool, int>> models;
  for (const Layout& layout : covering_layouts_of(GetParam())) {
    replicas.insert({layout.tensor, layout.data});
    stages.insert({layout.pipeline, layout.split});
    if (layout.pipeline > 1) schedules.insert(layout.schedule);
    models.insert({layout.storage, layout.binary_head, layout.relative_positions, layout.groups});
  }
  const bool is_t5 = std::string(GetParam()) == "t5";
  EXPECT_EQ(replicas.size(), 5U);
  EXPECT_EQ(stages.size(), is_t5 ? 7U : 4U);
  EXPECT_EQ(schedules.size(), is_t5 ? 4U : 5U);
  EXPECT_EQ(models.size(), 5U * 2U);
}

// What the comparisons rest on: the run clips, learns and moves all of its weights.
TEST_P(FamilyMatrix, TheRunOnOneRankIsWorthComparing) {
  for (const bool other : {false, true}) {
    Layout layout{.layers = 2, .family = GetParam()};
    layout.binary_head = layout.family != "bert" || !other;
    layout.relative_positions = layout.family == "t5" && other;
    layout.qkv_extras = layout.family == "llama" && other;
    layout.decoder_layers = 2;
    SCOPED_TRACE(name_of(layout));
    const auto config = legal_config(layout);
    ASSERT_TRUE(config.has_value());
    const TrainingResult run = train(*config);
    for (const double norm : run.grad_norms) EXPECT_GT(norm, config->optimizer.clip_grad);
    const std::size_t losses = run.losses.size() / kTrainingSteps;
    EXPECT_LT(run.losses[run.losses.size() - losses], 0.97 * run.losses.front());
    for (const auto& [name, weights] : run.weights) {
      EXPECT_NE(weights, run.initial_weights.at(name)) << name;
    }
  }
}

// --loss-average token: how the global batch is cut into microbatches is no business of the loss.
TEST_P(FamilyMatrix, MicrobatchesOfAnySizeHaveOneLoss) {
  Layout layout{.layers = 2, .family = GetParam(), .decoder_layers = 2};
  const TrainingResult one = train(*legal_config(layout), kSteps);
  layout.micro_batch = 4;
  const TrainingResult four = train(*legal_config(layout), kSteps);
  EXPECT_LE(distance(four, one).loss, 1e-6);
  EXPECT_LE(distance(four, one).gradient, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyMatrix, testing::Values("bert", "t5", "llama"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace phalanx
