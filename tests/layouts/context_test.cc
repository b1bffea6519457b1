// The same tiny models with samples whose rows lie on several ranks: equal to one rank to rounding,
// to the same layout without anything that must not change a bit, bitwise; with the messages that
// closed forms count.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"

namespace phalanx {
namespace {

constexpr int kSteps = 3;

// Of every exchange and cut, with what else cuts rows, heads, states or layers. All drop out, in
// attention and elsewhere.
std::vector<Layout> context_layouts() {
  return {
      {.context = 2},
      {.context = 4, .micro_batch = 2, .storage = StorageType::kBF16},
      {.context = 2, .exchange = "all_gather"},
      {.context = 4, .exchange = "all_gather", .groups = 1},
      {.context = 2, .exchange = "a2a"},
      {.context = 4, .exchange = "a2a", .groups = 2},
      {.context = 4, .exchange = "a2a+p2p", .heads_of_exchange = 2},
      {.context = 4, .exchange = "a2a+p2p", .heads_of_exchange = 2, .groups = 1},
      {.data = 2, .context = 2, .zero = {.stage = 1}, .overlap = Overlap::kReduceAndGather},
      {.data = 2,
       .context = 2,
       .exchange = "a2a",
       .zero = {.stage = 2},
       .overlap = Overlap::kReduce,
       .mean_of_means = true},
      {.context = 4, .zero = {.stage = 3, .prefetch = 2, .stays_below = 96}, .groups = 2},
      {.context = 2, .zero = {.stage = 3}, .files = Files::kBoth},
      {.data = 2, .context = 2, .zero = {.stage = 3, .copies = 2}, .small_buckets = true},
      {.tensor = 2, .context = 2},
      {.tensor = 2, .context = 2, .sequence_parallel = true, .recompute = Recompute::kUniform1},
      {.tensor = 2,
       .context = 2,
       .exchange = "a2a",
       .sequence_parallel = true,
       .storage = StorageType::kBF16ResidualF32},
      {.tensor = 4, .context = 2, .exchange = "all_gather", .groups = 2},
      {.tensor = 2, .data = 2, .context = 2, .zero = {.stage = 1}},
      {.pipeline = 2, .context = 2, .schedule = "1f1b", .chunks = 1, .layers = 4},
      {.pipeline = 2,
       .context = 2,
       .exchange = "a2a",
       .schedule = "zb-v",
       .chunks = 2,
       .zero = {.stage = 1},
       .layers = 4},
      {.tensor = 2,
       .pipeline = 2,
       .context = 2,
       .exchange = "all_gather",
       .schedule = "interleaved",
       .chunks = 2,
       .sequence_parallel = true,
       .recompute = Recompute::kBlock2,
       .layers = 4},
      {.context = 2, .groups = 2, .family = "llama"},
      {.context = 2, .exchange = "a2a", .groups = 2, .family = "llama", .qkv_extras = true},
      {.context = 4, .exchange = "all_gather", .groups = 1, .family = "llama"},
      {.context = 2, .documents = true},
      {.context = 4, .exchange = "a2a", .documents = true},
      {.context = 2, .cuts_documents = true, .documents = true},
      {.context = 2, .exchange = "all_gather", .cuts_documents = true, .documents = true},
      {.tensor = 2, .context = 2, .exchange = "a2a", .cuts_documents = true, .documents = true},
  };
}

// At night each with every type of storage, with and without recomputation.
std::vector<Layout> layouts_of_today() {
  std::vector<Layout> layouts = context_layouts();
  if (!is_nightly()) return layouts;
  std::map<std::string, Layout> all;
  for (Layout layout : layouts) {
    for (const StorageType storage :
         {StorageType::kF32, StorageType::kBF16, StorageType::kBF16ResidualF32, StorageType::kF16,
          StorageType::kF16ResidualF32}) {
      layout.storage = storage;
      for (const Recompute recompute : {Recompute::kNone, Recompute::kUniform2}) {
        layout.recompute = recompute;
        if (legal_config(layout)) all.emplace(name_of(layout), layout);
      }
    }
  }
  layouts.clear();
  for (const auto& [name, layout] : all) layouts.push_back(layout);
  return layouts;
}

class ContextLayouts : public testing::TestWithParam<Layout> {};

TEST_P(ContextLayouts, TrainAsOneRankDoes) {
  const Layout& layout = GetParam();
  SCOPED_TRACE(name_of(layout));
  Trainings trainings;
  const TrainingResult result = expect_training(layout, kSteps, trainings);
  if (layout.family == "gpt") expect_traffic(result, *legal_config(layout));
  expect_close(result, trainings.of(on_one_rank(layout), kSteps), layout);
}

INSTANTIATE_TEST_SUITE_P(Context, ContextLayouts, testing::ValuesIn(layouts_of_today()),
                         [](const auto& layout) {
                           std::string name = name_of(layout.param);
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace phalanx
