// The first pass of a step over a gradient overwrites what the last step left there. All other
// tests of this folder begin every step with gradients that are not numbers; here these runs are
// compared with others that begin with zeros.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare.h"
#include "harness.h"

namespace phalanx {
namespace {

std::vector<Layout> layouts() {
  std::vector<Layout> layouts = {
      {},
      {.tied = false},
      {.storage = StorageType::kBF16},
      {.recompute = Recompute::kUniform2},
      {.tensor = 2, .sequence_parallel = true},
      {.data = 2, .overlap = Overlap::kReduce, .small_buckets = true},
      {.data = 2,
       .zero = {.stage = 1},
       .overlap = Overlap::kReduceAndGather,
       .small_buckets = true},
      {.data = 2, .zero = {.stage = 2}},
      {.data = 2,
       .zero = {.stage = 3},
       .overlap = Overlap::kReduce,
       .recompute = Recompute::kUniform2},
      {.tied = false, .groups = 2, .family = "llama", .qkv_extras = true},
      // Two ranks hold the rows of one group's keys and values.
      {.tensor = 2, .sequence_parallel = true, .groups = 1, .family = "llama"},
  };
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "gpipe"}) {
    for (const bool tied : {true, false}) {
      layouts.push_back({.pipeline = 2, .schedule = schedule, .layers = 8, .tied = tied});
    }
  }
  return layouts;
}

TEST(LeftGradients, HaveNoEffect) {
  int trained = 0;
  for (const Layout& layout : layouts()) {
    const auto config = legal_config(layout);
    if (!config) continue;
    SCOPED_TRACE(name_of(layout));
    ++trained;
    constexpr int kSteps = 3;
    const TrainingResult result = train(*config, kSteps, LeftGradients::kNan);
    EXPECT_EQ(result.faults, std::vector<std::string>{});
    EXPECT_EQ(result.skipped, std::vector<bool>(kSteps, false));
    EXPECT_EQ(first_difference(result, train(*config, kSteps, LeftGradients::kZeros)), "");
  }
  EXPECT_GE(trained, 21);
}

}  // namespace
}  // namespace phalanx
