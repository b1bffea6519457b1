// The same tiny models with low-rank adapters beside their linears: equal to one rank to rounding,
// to the same layout without anything that must not change a bit, bitwise; the model below them
// keeps its bits, and they begin without an effect.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;
constexpr const char* kAll = "all-linear";

std::vector<Layout> layouts_with(std::vector<Layout> layouts) {
  for (Layout& layout : layouts) {
    if (layout.adapters.empty()) layout.adapters = kAll;
  }
  return layouts;
}

// By day a few that differ in everything.
std::vector<Layout> adapter_layouts() {
  return layouts_with({
      {.groups = 2, .family = "llama", .adapters = "q v up", .adapter_dropout = 0.2},
      {.recompute = Recompute::kUniform1, .fused_attention = false, .adapters = "qkv down"},
      {.recompute = Recompute::kSelective, .storage = StorageType::kBF16},
      {.tensor = 2,
       .sequence_parallel = true,
       .groups = 2,
       .family = "llama",
       .qkv_extras = true,
       .adapter_dropout = 0.3},
      // Fewer groups than ranks.
      {.tensor = 4, .groups = 2, .family = "llama"},
      {.tensor = 2,
       .data = 2,
       .zero = {.stage = 2},
       .storage = StorageType::kF16,
       .adapters = "qkv fc1 o"},
      {.data = 2,
       .zero = {.stage = 1},
       .overlap = Overlap::kReduceAndGather,
       .recompute = Recompute::kUniform2,
       .family = "llama",
       .adapter_dropout = 0.1},
      {.context = 2, .family = "llama", .adapter_dropout = 0.2},
      {.context = 2, .exchange = "a2a", .adapters = "k o"},
      {.pipeline = 2, .schedule = "zb-v", .chunks = 2, .layers = 4, .family = "llama"},
      {.tensor = 2, .pipeline = 2, .schedule = "interleaved", .chunks = 2, .layers = 4},
  });
}

// At night what cuts rows, states or layers, times what adapters are beside.
std::vector<Layout> nightly_layouts() {
  std::vector<Layout> layouts;
  for (const char* adapters : {kAll, "q v", "qkv fc1", "o down"}) {
    for (const char* family : {"gpt", "llama"}) {
      for (const double dropout : {0.0, 0.2}) {
        for (const int groups : {0, 1, 2}) {
          const Layout base{
              .groups = groups, .family = family, .adapters = adapters, .adapter_dropout = dropout};
          for (const int tensor : {2, 4}) {
            for (const bool sequence : {false, true}) {
              Layout cut = base;
              cut.tensor = tensor;
              cut.sequence_parallel = sequence;
              layouts.push_back(cut);
            }
          }
          for (const auto storage :
               {StorageType::kF32, StorageType::kBF16, StorageType::kF16ResidualF32}) {
            for (const int stage : {0, 1, 2}) {
              Layout shared = base;
              shared.data = 2;
              shared.zero.stage = stage;
              shared.storage = storage;
              shared.recompute = stage == 1 ? Recompute::kUniform1 : Recompute::kNone;
              layouts.push_back(shared);
            }
          }
          for (const char* schedule : {"1f1b", "zb-h1"}) {
            Layout stages = base;
            stages.pipeline = 2;
            stages.schedule = schedule;
            stages.chunks = 1;
            stages.layers = 4;
            layouts.push_back(stages);
          }
          Layout context = base;
          context.context = 2;
          context.tensor = 2;
          layouts.push_back(context);
        }
      }
    }
  }
  return layouts;
}

bool is_adapter(const std::string& name) { return name.find(".lora.") != name.npos; }

void expect_like_one_rank(const Layout& layout) {
  SCOPED_TRACE(name_of(layout));
  Trainings trainings;
  const TrainingResult result = expect_training(layout, kSteps, trainings);
  expect_close(result, trainings.of(on_one_rank(layout), kSteps), layout);
  std::size_t adapters = 0;
  for (const auto& [name, before] : result.initial_stored) {
    const auto& after = result.stored_weights.at(name);
    if (is_adapter(name)) {
      ++adapters;
      EXPECT_NE(after, before) << name << " is trained";
    } else {
      EXPECT_EQ(after, before) << name << " is not trained";
      EXPECT_FALSE(result.weights.contains(name) || result.exp_avg.contains(name)) << name;
    }
  }
  EXPECT_GT(adapters, 0U);
}

class AdapterLayouts : public testing::TestWithParam<Layout> {};

TEST_P(AdapterLayouts, TrainAsOneRankDoes) { expect_like_one_rank(GetParam()); }

TEST(AdapterLayoutsNightly, TrainAsOneRankDoes) {
  if (!is_nightly()) GTEST_SKIP() << "at night";
  for (const Layout& layout : nightly_layouts()) expect_like_one_rank(layout);
}

// The second factor is zero at first, so the first losses are those of the model alone.
TEST(Adapters, BeginWithoutAnEffect) {
  for (const char* family : {"gpt", "llama"}) {
    Layout layout{.family = family, .adapters = kAll};
    const TrainingResult adapted = train(*legal_config(layout), 1);
    layout.adapters.clear();
    const TrainingResult plain = train(*legal_config(layout), 1);
    EXPECT_EQ(adapted.losses, plain.losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, AdapterLayouts, testing::ValuesIn(adapter_layouts()),
                         [](const auto& layout) {
                           std::string name = name_of(layout.param);
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace phalanx
