// The same tiny models with parameters that are not trained: equal to one rank to rounding, to the
// same layout without anything that must not change a bit, bitwise; frozen weights keep their bits,
// and the gradients of the others are those of a training of everything.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;

// Frozen are kinds of parameters in every layer, layers from below, whole stages, tables, what is
// left without a bias or a weight; with what cuts rows, states or layers.
std::vector<Layout> frozen_layouts() {
  const std::string attention = "self_attention";
  const std::string lower = "embedding|layers\\.[01]\\.";
  return {
      {.trainable = attention},
      {.freeze = "weight$"},
      {.freeze = "bias$"},
      {.micro_batch = 2, .storage = StorageType::kBF16, .freeze = lower},
      {.recompute = Recompute::kUniform1, .freeze = lower},
      {.recompute = Recompute::kUniform2, .freeze = lower},
      {.recompute = Recompute::kSelective, .storage = StorageType::kF16, .trainable = "linear_fc"},
      {.tied = false, .freeze = "word_embeddings"},
      {.tied = false, .freeze = "output_layer|fc2"},
      {.tensor = 2, .trainable = "linear_proj"},
      {.tensor = 2, .sequence_parallel = true, .trainable = "linear_qkv|linear_fc2"},
      {.tensor = 2, .sequence_parallel = true, .trainable = "norm"},
      {.tensor = 4, .storage = StorageType::kBF16ResidualF32, .groups = 2, .freeze = "linear_qkv"},
      {.data = 2, .zero = {.stage = 1}, .overlap = Overlap::kReduceAndGather, .freeze = lower},
      {.data = 2,
       .zero = {.stage = 2},
       .overlap = Overlap::kReduce,
       .storage = StorageType::kBF16,
       .freeze = lower},
      {.data = 4, .zero = {.stage = 2}, .small_buckets = true, .trainable = attention},
      {.data = 4,
       .zero = {.stage = 1, .copies = 2},
       .files = Files::kOptimizer,
       .storage = StorageType::kBF16,
       .trainable = attention},
      {.tensor = 2, .data = 2, .zero = {.stage = 1}, .tied = false, .freeze = "embedding"},
      {.context = 2, .trainable = "linear_qkv"},
      {.pipeline = 2, .schedule = "1f1b", .chunks = 1, .layers = 4, .freeze = lower},
      {.pipeline = 2,
       .schedule = "1f1b",
       .chunks = 1,
       .zero = {.stage = 1},
       .layers = 4,
       .storage = StorageType::kBF16,
       .tied = false,
       .trainable = "layers\\.3|final_layernorm"},
      {.pipeline = 2,
       .schedule = "interleaved",
       .chunks = 2,
       .recompute = Recompute::kUniform1,
       .layers = 4,
       .freeze = lower},
      {.pipeline = 2,
       .schedule = "zb-v",
       .chunks = 2,
       .layers = 4,
       .tied = false,
       .trainable = "layers\\.2"},
      {.pipeline = 4,
       .schedule = "zb-h1",
       .chunks = 1,
       .layers = 4,
       .tied = false,
       .freeze = lower},
      {.groups = 2, .family = "llama", .qkv_extras = true, .freeze = "linear_fc1|q_layernorm"},
      {.family = "bert", .freeze = "embedding|pooler|lm_head.dense|layers\\.0"},
      {.family = "t5",
       .decoder_layers = 2,
       .relative_positions = true,
       .freeze = "encoder|cross_attention"},
      {.tensor = 2, .family = "t5", .decoder_layers = 2, .freeze = "relative|decoder\\.layers\\.0"},
      {.pipeline = 2,
       .schedule = "1f1b",
       .chunks = 1,
       .family = "t5",
       .decoder_layers = 3,
       .split = 1,
       .freeze = "encoder|embedding"},
  };
}

bool is_frozen(const std::string& name, const Layout& layout) {
  const auto has = [&](const std::string& expression) {
    return std::regex_search(name, std::regex(expression));
  };
  return (!layout.trainable.empty() && !has(layout.trainable)) ||
         (!layout.freeze.empty() && has(layout.freeze));
}

class FrozenLayouts : public testing::TestWithParam<Layout> {};

TEST_P(FrozenLayouts, TrainAsOneRankDoes) {
  const Layout& layout = GetParam();
  SCOPED_TRACE(name_of(layout));
  Trainings trainings;
  const TrainingResult result = expect_training(layout, kSteps, trainings);
  expect_close(result, trainings.of(on_one_rank(layout), kSteps), layout);
}

TEST_P(FrozenLayouts, ChangeWhatIsTrainedAlone) {
  const Layout& layout = GetParam();
  SCOPED_TRACE(name_of(layout));
  const TrainingResult result = train(*legal_config(layout), kSteps);
  Layout whole = layout;
  whole.trainable.clear();
  whole.freeze.clear();
  const TrainingResult of_all = train(*legal_config(whole), 1);
  std::size_t frozen = 0;
  for (const auto& [name, values] : of_all.initial_stored) {
    const auto& before = result.initial_stored.at(name);
    const auto& after = result.stored_weights.at(name);
    EXPECT_EQ(before, values) << name;
    if (is_frozen(name, layout)) {
      ++frozen;
      EXPECT_EQ(after, before) << name << " is not trained";
      EXPECT_FALSE(result.weights.contains(name) || result.exp_avg.contains(name)) << name;
    } else {
      EXPECT_NE(after, before) << name << " is trained";
      EXPECT_EQ(result.first_gradients.at(name), of_all.first_gradients.at(name)) << name;
    }
  }
  EXPECT_GT(frozen, 0U);
  EXPECT_LT(frozen, of_all.initial_stored.size());
}

INSTANTIATE_TEST_SUITE_P(Frozen, FrozenLayouts, testing::ValuesIn(frozen_layouts()),
                         [](const auto& layout) {
                           std::string name = name_of(layout.param);
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace phalanx
