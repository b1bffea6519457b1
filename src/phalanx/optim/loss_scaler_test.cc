#include "phalanx/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// The scale after every step.
std::vector<double> trajectory(LossScaler& scaler, const std::vector<int>& overflows) {
  std::vector<double> scales;
  for (const int overflow : overflows) {
    scaler.update(overflow != 0);
    scales.push_back(scaler.scale());
  }
  return scales;
}

double power(int exponent) { return std::ldexp(1.0, exponent); }

TEST(LossScaler, FollowsMegatron) {
  LossScaler scaler = LossScaler::dynamic({});
  EXPECT_TRUE(scaler.is_dynamic());
  EXPECT_EQ(scaler.scale(), power(32));
  EXPECT_EQ(trajectory(scaler, {1, 1, 1}), (std::vector{power(32), power(31), power(30)}));
  for (int step = 0; step < 999; ++step) scaler.update(false);
  EXPECT_EQ(scaler.scale(), power(30));
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), power(31));
  // The doubling gave the hysteresis back.
  EXPECT_EQ(trajectory(scaler, {1, 1}), (std::vector{power(31), power(30)}));
}

TEST(LossScaler, AnOverflowEndsTheCleanRun) {
  LossScaler scaler =
      LossScaler::dynamic({.initial = 16, .minimum = 1, .window = 3, .hysteresis = 2});
  // Clean steps count from the overflow on. They do not give the hysteresis back, only the doubling
  // does: the second overflow halves although clean steps lie between the two.
  EXPECT_EQ(trajectory(scaler, {0, 0, 1, 0, 0, 1, 0, 0, 0, 1}),
            (std::vector<double>{16, 16, 16, 16, 16, 8, 8, 8, 16, 16}));
  EXPECT_EQ(scaler.state(), (LossScaler::State{.scale = 16, .clean_steps = 0, .hysteresis = 1}));
  // A doubling starts a new window.
  scaler = LossScaler::dynamic({.initial = 1, .minimum = 1, .window = 2, .hysteresis = 1});
  EXPECT_EQ(trajectory(scaler, {0, 0, 0, 0, 0, 1}), (std::vector<double>{1, 2, 2, 4, 4, 2}));
}

TEST(LossScaler, StaysAboveTheMinimum) {
  LossScaler scaler =
      LossScaler::dynamic({.initial = 20, .minimum = 3, .window = 1, .hysteresis = 1});
  EXPECT_EQ(trajectory(scaler, {1, 1, 1, 1, 0}), (std::vector<double>{10, 5, 3, 3, 6}));
}

TEST(LossScaler, ContinuesFromItsState) {
  const LossScaler::Dynamic settings{.initial = 64, .minimum = 1, .window = 3, .hysteresis = 2};
  const std::vector<int> overflows = {0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0};
  LossScaler straight = LossScaler::dynamic(settings);
  const auto expected = trajectory(straight, overflows);
  for (std::size_t cut = 0; cut <= overflows.size(); ++cut) {
    const auto middle = overflows.begin() + static_cast<std::ptrdiff_t>(cut);
    LossScaler before = LossScaler::dynamic(settings);
    auto scales = trajectory(before, {overflows.begin(), middle});
    LossScaler after = LossScaler::dynamic(settings);
    after.restore(before.state());
    const auto rest = trajectory(after, {middle, overflows.end()});
    scales.insert(scales.end(), rest.begin(), rest.end());
    EXPECT_EQ(scales, expected) << "cut at " << cut;
    EXPECT_EQ(after.state(), straight.state()) << "cut at " << cut;
  }
  // Resumed with a window that has already passed.
  LossScaler shorter = LossScaler::dynamic(settings);
  shorter.restore({.scale = 8, .clean_steps = 700, .hysteresis = 1});
  shorter.update(false);
  EXPECT_EQ(shorter.state(), (LossScaler::State{.scale = 16, .clean_steps = 0, .hysteresis = 2}));
}

TEST(LossScaler, AConstantStays) {
  LossScaler scaler = LossScaler::constant(128);
  EXPECT_FALSE(scaler.is_dynamic());
  EXPECT_EQ(trajectory(scaler, {1, 1, 1, 0}), (std::vector<double>{128, 128, 128, 128}));
  scaler.restore({.scale = 4, .clean_steps = 1, .hysteresis = 1});
  EXPECT_EQ(scaler.scale(), 128);
  EXPECT_EQ(LossScaler().scale(), 1);
}

TEST(LossScaler, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(LossScaler::constant(0), InternalError);
  EXPECT_THROW(LossScaler::dynamic({.initial = 1, .minimum = 2}), InternalError);
  EXPECT_THROW(LossScaler::dynamic({.window = 0}), InternalError);
  EXPECT_THROW(LossScaler::dynamic({.hysteresis = 0}), InternalError);
}

}  // namespace
}  // namespace phalanx
