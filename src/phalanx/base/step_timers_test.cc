#include "phalanx/base/step_timers.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace phalanx {
namespace {

using std::chrono::milliseconds;

TEST(StepTimers, AddUpByTimer) {
  StepTimers timers;
  timers.add(StepTimer::kForwardCompute, milliseconds(250));
  timers.add(StepTimer::kForwardCompute, milliseconds(500));
  timers.add(StepTimer::kData, milliseconds(125));
  EXPECT_DOUBLE_EQ(timers.seconds(StepTimer::kForwardCompute), 0.75);
  EXPECT_DOUBLE_EQ(timers.seconds(StepTimer::kBackwardCompute), 0.0);
  EXPECT_DOUBLE_EQ(timers.times()[static_cast<std::size_t>(StepTimer::kData)], 0.125);
}

TEST(StepTimers, ScopesCountEvenAfterAnException) {
  StepTimers timers;
  try {
    const TimerScope time(&timers, StepTimer::kOptimizer);
    const auto begin = StepTimers::Clock::now();
    while (StepTimers::Clock::now() == begin) {
    }
    throw std::runtime_error("left");
  } catch (const std::runtime_error&) {
  }
  EXPECT_GT(timers.seconds(StepTimer::kOptimizer), 0.0);
  { const TimerScope nowhere(nullptr, StepTimer::kOptimizer); }
}

TEST(StepTimers, HaveUniqueNames) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kStepTimers; ++i) {
    const auto timer = static_cast<StepTimer>(i);
    EXPECT_TRUE(names.insert(name_of(timer)).second) << name_of(timer);
    EXPECT_GE(level_of(timer), 0);
    EXPECT_LE(level_of(timer), 3);
  }
  EXPECT_EQ(name_of(StepTimer::kForwardBackward), "forward-backward");
  EXPECT_EQ(name_of(StepTimer::kSaveCheckpoint), "save-checkpoint");
  EXPECT_EQ(name_of(StepTimer::kData), "data");
  EXPECT_EQ(name_of(StepTimer::kFiles), "files");
  EXPECT_EQ(name_of(StepTimer::kSnapshot), "snapshot");
}

}  // namespace
}  // namespace phalanx
