// Activations in files between the passes: the bits of memory under every schedule, and as many
// bytes as wait no longer in memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "compare.h"
#include "phalanx/families/family.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

TrainConfig with_files(TrainConfig config) {
  config.layout.offload_activations_to = state_directory();
  config.layout.aio_block_size = 4096;  // less than most of what a tiny model saves
  return config;
}

std::int64_t moved(const TransferTotals& transfers, const std::string& op) {
  std::int64_t bytes = 0;
  for (const auto& [key, total] : transfers.by_key()) {
    if (key.first.starts_with("activations") && key.second == op) bytes += total.bytes;
  }
  return bytes;
}

std::int64_t waiting(const MemoryPlan& plan) {
  std::int64_t bytes = 0;
  for (const std::int64_t of_chunk : plan.saved_per_microbatch) bytes += of_chunk;
  return bytes;
}

// Trains in memory and in files.
void expect_same_bits(const Layout& layout) {
  SCOPED_TRACE(name_of(layout));
  const auto memory = legal_config(layout);
  ASSERT_TRUE(memory.has_value());
  const TrainConfig files = with_files(*memory);
  constexpr int kSteps = 3;
  const TrainingResult result = train(files, kSteps);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(first_difference(result, train(*memory, kSteps)), "");
  for (const MeasuredStep& step : result.measured) {
    EXPECT_EQ(step.transfers, step.planned_transfers);
    EXPECT_GT(moved(step.transfers, "write"), 0);
    EXPECT_EQ(moved(step.transfers, "read"), moved(step.transfers, "write"));
  }
}

std::set<std::string> schedules_of_two_ranks() {
  std::set<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    const Layout layout{.pipeline = 2, .schedule = std::string(kind.name), .layers = 12};
    if (kind.update == UpdateRule::kFlush && legal_config(layout)) names.insert(layout.schedule);
  }
  return names;
}

TEST(ActivationFiles, HaveTheBitsOfMemoryUnderEverySchedule) {
  const std::set<std::string> names = schedules_of_two_ranks();
  EXPECT_GE(names.size(), 10U);
  for (const std::string& name : names) {
    expect_same_bits({.pipeline = 2, .schedule = name, .layers = 12, .micro_batch = 4});
  }
}

TEST(ActivationFiles, HaveTheBitsOfMemoryWhateverIsRecomputed) {
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kSelective, Recompute::kUniform1, Recompute::kUniform2,
        Recompute::kBlock2, Recompute::kDistributed}) {
    expect_same_bits({.tensor = 2, .recompute = recompute, .layers = 8, .micro_batch = 8});
  }
  expect_same_bits({.tensor = 2, .sequence_parallel = true, .layers = 6, .micro_batch = 8});
}

TEST(ActivationFiles, HaveTheBitsOfMemoryBesideSharedStates) {
  for (const Files files : {Files::kNone, Files::kBoth}) {
    expect_same_bits({.data = 2,
                      .zero = {.stage = 3},
                      .files = files,
                      .overlap = Overlap::kReduce,
                      .recompute = Recompute::kUniform1,
                      .layers = 6,
                      .micro_batch = 4,
                      .storage = StorageType::kBF16ResidualF32});
  }
}

// What an encoder hands to every layer of the decoder leaves once.
TEST(ActivationFiles, HaveTheBitsOfMemoryInOtherFamilies) {
  for (const std::string family : {"llama", "bert", "t5"}) {
    expect_same_bits({.layers = 5,
                      .micro_batch = 8,
                      .family = family,
                      .decoder_layers = family == "t5" ? 4 : 0});
  }
}

TEST(ActivationFiles, TakeWhatWaitsNoLonger) {
  for (const int pipeline : {1, 2}) {
    const auto memory = legal_config({.pipeline = pipeline, .layers = 12, .micro_batch = 4});
    const TrainConfig files = with_files(*memory);
    const auto plans_of = [](const TrainConfig& config) {
      return plan_ranks(config, *make_model(config, kVocabulary), step_programs(config),
                        {cpu::ProductPrecision::kFp32});
    };
    const auto whole = plans_of(*memory);
    const auto cut = plans_of(files);
    ASSERT_EQ(whole.size(), cut.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::int64_t away = waiting(whole[i].memory) - waiting(cut[i].memory);
      const std::int64_t microbatches = num_microbatches(files.layout);
      EXPECT_EQ(moved(cut[i].memory.transfers, "write"), microbatches * away);
      EXPECT_EQ(moved(cut[i].memory.transfers, "read"), microbatches * away);
      EXPECT_LT(cut[i].memory.bytes["saved"], whole[i].memory.bytes["saved"]);
      // Room for all that are in flight.
      const int in_flight = cut[i].memory.microbatches_in_flight[0];
      EXPECT_GE(cut[i].memory.file_bytes, in_flight * away);
      EXPECT_LE(cut[i].memory.file_bytes, in_flight * (away + away / 2));
    }
  }
}

}  // namespace
}  // namespace phalanx
