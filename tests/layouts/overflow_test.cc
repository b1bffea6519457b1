// Gradients that overflow on one stage of a pipeline, or in one rank's part of them: nobody
// updates.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compare.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

std::vector<Layout> layouts() {
  return {{.pipeline = 2, .schedule = "1f1b", .layers = 4, .storage = StorageType::kF16},
          {.pipeline = 4, .schedule = "zb-h1", .layers = 4, .storage = StorageType::kF16},
          {.data = 2,
           .pipeline = 2,
           .schedule = "zb-v",
           .zero = {.stage = 1},
           .overlap = Overlap::kReduceAndGather,
           .layers = 4,
           .storage = StorageType::kF16},
          {.data = 2, .zero = {.stage = 2}, .storage = StorageType::kF16},
          {.tensor = 2,
           .data = 2,
           .sequence_parallel = true,
           .zero = {.stage = 3, .stays_below = 96},
           .overlap = Overlap::kReduceAndGather,
           .recompute = Recompute::kUniform2,
           .storage = StorageType::kF16},
          {.data = 4, .zero = {.stage = 3, .copies = 2}, .storage = StorageType::kF16}};
}

TrainConfig with_scale(const Layout& layout, double scale) {
  TrainConfig config = config_of(layout);
  config.optimizer.loss_scale = scale;
  resolve(config, false);
  return config;
}

TEST(Overflow, NobodyUpdatesWhereOneOverflows) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    const TrainingResult result = train(with_scale(layout, std::ldexp(1.0, 60)));
    EXPECT_EQ(result.faults, std::vector<std::string>{});
    EXPECT_EQ(result.skipped, std::vector<bool>(kTrainingSteps, true));
    EXPECT_EQ(result.weights, result.initial_weights);
    for (const auto& [name, moments] : result.exp_avg) {
      EXPECT_EQ(moments, std::vector<float>(moments.size(), 0.0F)) << name;
    }
  }
}

// With a scale at the edge some steps overflow, and on few elements.
TEST(Overflow, TheSameStepsAreSkippedByAll) {
  for (const Layout& layout : layouts()) {
    std::int64_t mixed = 0;
    for (const int exponent : {18, 19, 20, 21, 22}) {
      SCOPED_TRACE(fmt::format("{}, scale 2^{}", name_of(layout), exponent));
      const double scale = std::ldexp(1.0, exponent);
      const TrainingResult result = train(with_scale(layout, scale));
      EXPECT_EQ(result.faults, std::vector<std::string>{});
      EXPECT_EQ(
          first_difference(result, train(with_scale(without_bitwise_features(layout), scale))), "");
      const auto skips = std::ranges::count(result.skipped, true);
      if (skips > 0 && skips < kTrainingSteps) ++mixed;
    }
    EXPECT_GT(mixed, 0) << name_of(layout);
  }
}

}  // namespace
}  // namespace phalanx
