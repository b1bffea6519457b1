#include "phalanx/train/skipped_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The iterations after which there is a warning.
std::vector<std::int64_t> warned(SkippedSteps& steps, const std::vector<bool>& skipped) {
  const LossScaler scaler = LossScaler::constant(8);
  std::vector<std::int64_t> iterations;
  std::int64_t iteration = 0;
  for (const bool one : skipped) {
    if (steps.after(++iteration, one, 1.0, scaler)) iterations.push_back(iteration);
  }
  return iterations;
}

TEST(SkippedSteps, TenInARowAreAWarning) {
  const TrainConfig config;
  std::vector<bool> skipped(1000, true);
  SkippedSteps all(config);
  EXPECT_EQ(warned(all, skipped), (std::vector<std::int64_t>{10, 100, 1000}));
  EXPECT_EQ(all.skipped(), 1000);
  // One that is made between them begins a row anew.
  skipped.resize(30);
  skipped[9] = false;
  SkippedSteps two(config);
  EXPECT_EQ(warned(two, skipped), std::vector<std::int64_t>{20});
  EXPECT_EQ(two.skipped(), 29);
}

TEST(SkippedSteps, TheReasonIsTheFlagThatHelps) {
  const auto reason = [](const TrainConfig& config, LossScaler scaler, double loss) {
    SkippedSteps steps(config);
    std::string text;
    for (int i = 1; i <= 10; ++i) {
      scaler.update(true);
      text = steps.after(i, true, loss, scaler).value_or("");
    }
    return text;
  };
  TrainConfig config;
  config.model.fp16 = true;
  EXPECT_THAT(
      reason(config, LossScaler::dynamic({.initial = 4096}), 1.0),
      AllOf(HasSubstr("10 iterations in a row were skipped, to iteration 10"),
            HasSubstr("is 8 (--initial-loss-scale 4294967296) and is halved by every further one"),
            HasSubstr("smaller --initial-loss-scale")));
  EXPECT_THAT(reason(config, LossScaler::dynamic({.initial = 4096, .hysteresis = 50}), 1.0),
              HasSubstr("is 4096 (--initial-loss-scale 4294967296) and is halved by the 40th"));
  EXPECT_THAT(reason(config, LossScaler::dynamic({.initial = 16}), 1.0),
              AllOf(HasSubstr("--min-loss-scale 1"), HasSubstr("--bf16")));
  EXPECT_THAT(reason(config, LossScaler::dynamic({.initial = 4096}), kNan),
              AllOf(HasSubstr("loss is not finite"), Not(HasSubstr("--initial-loss-scale"))));
  config.optimizer.loss_scale = 1e30;
  EXPECT_THAT(reason(config, LossScaler::constant(1e30), 1.0),
              AllOf(HasSubstr("always 1e+30 (--loss-scale)"), HasSubstr("or none")));
  config.model.fp16 = false;
  EXPECT_THAT(reason(config, LossScaler::constant(1e30), 1.0), Not(HasSubstr("or none")));
  config.optimizer.loss_scale.reset();
  EXPECT_THAT(reason(config, LossScaler::constant(1), 1.0), HasSubstr("not scaled"));
}

}  // namespace
}  // namespace phalanx
