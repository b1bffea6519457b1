#include "phalanx/launch/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx::launch {
namespace {

using testing::HasSubstr;
using Progress = std::optional<SavedProgress>;

Progress at(std::int64_t iteration, std::int64_t start = 1) {
  return SavedProgress{.start = start, .iteration = iteration};
}

Outcome failed(int status) { return {.exit_status = status, .culprit = {}, .failed = 1}; }

TEST(RestartPolicy, DependsOnTheExitStatus) {
  for (const int status : {69, 70, 74, 75, 124, 1}) {
    RestartPolicy policy(5, true);
    EXPECT_TRUE(policy.after(failed(status), {}, {}).restarts) << status;
  }
  for (const int status : {64, 65, 66, 71, 73, 77, 78, 85, 93, 130}) {
    RestartPolicy policy(5, true);
    const NextStep step = policy.after(failed(status), {}, at(1));
    EXPECT_FALSE(step.restarts) << status;
    EXPECT_EQ(step.exit_status, status);
  }
}

TEST(RestartPolicy, NotBesideAProcessThatCannotBeEnded) {
  RestartPolicy policy(5, true);
  Outcome outcome = failed(74);
  outcome.left_behind = 1;
  const NextStep step = policy.after(outcome, {}, at(1));
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 74);
  EXPECT_THAT(step.why, HasSubstr("cannot be ended"));
}

TEST(RestartPolicy, EndsWhereNothingFailed) {
  RestartPolicy policy(5, true);
  EXPECT_FALSE(policy.after({.exit_status = 0, .culprit = {}, .finished = 2}, {}, at(1)).restarts);
  EXPECT_EQ(policy.after({.exit_status = 85, .culprit = {}, .preempted = 2}, {}, at(1)).exit_status,
            85);
}

TEST(RestartPolicy, AnInternalErrorIsTriedOnce) {
  RestartPolicy policy(5, true);
  EXPECT_TRUE(policy.after(failed(70), {}, at(1)).restarts);
  EXPECT_TRUE(policy.after(failed(75), at(1), at(2)).restarts);
  const NextStep step = policy.after(failed(70), at(2), at(3));
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 70);
}

TEST(RestartPolicy, RestartsAreCounted) {
  RestartPolicy policy(2, true);
  EXPECT_TRUE(policy.after(failed(75), {}, at(1)).restarts);
  EXPECT_TRUE(policy.after(failed(75), at(1), at(2)).restarts);
  const NextStep step = policy.after(failed(75), at(2), at(3));
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 75);
  RestartPolicy none(0, true);
  EXPECT_FALSE(none.after(failed(75), {}, at(1)).restarts);
}

TEST(RestartPolicy, ThreeRestartsWithoutProgressEnd) {
  RestartPolicy policy(3, true);
  EXPECT_TRUE(policy.after(failed(75), {}, at(5)).restarts);
  EXPECT_TRUE(policy.after(failed(75), at(5), at(5)).restarts);
  EXPECT_TRUE(policy.after(failed(75), at(5), at(5)).restarts);
  const NextStep step = policy.after(failed(75), at(5), at(5));
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 93);
  EXPECT_THAT(step.why, HasSubstr("iteration 5"));
}

TEST(RestartPolicy, ProgressBeginsTheCountAnew) {
  RestartPolicy policy(100, true);
  Progress before;
  for (int i = 0; i < 20; ++i) {
    const Progress now = at(i / 3);  // something new every third time
    EXPECT_TRUE(policy.after(failed(75), before, now).restarts) << i;
    before = now;
  }
}

// A run that resumed from an earlier checkpoint, because the newest was damaged, writes smaller
// numbers.
TEST(RestartPolicy, ProgressIsThatOfTheLastStart) {
  EXPECT_TRUE(is_progress({}, at(0)));
  EXPECT_FALSE(is_progress({}, {}));
  EXPECT_FALSE(is_progress(at(5), {}));
  EXPECT_FALSE(is_progress(at(5), at(5)));
  EXPECT_TRUE(is_progress(at(5), at(6)));
  EXPECT_FALSE(is_progress(at(5), at(4)));
  EXPECT_TRUE(is_progress(at(10, 1), at(6, 2)));
  EXPECT_FALSE(is_progress(at(10, 1), at(10, 2))) << "it came to the same place again";
}

TEST(RestartPolicy, WithoutCheckpointsNothingIsStartedAgain) {
  RestartPolicy policy(5, false);
  const NextStep step = policy.after(failed(75), {}, {});
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 75);
  EXPECT_THAT(step.why, HasSubstr("--save"));
}

TEST(RestartPolicy, WhoAskedToStopGetsNoRestart) {
  RestartPolicy policy(5, true);
  Outcome outcome = failed(75);
  outcome.was_asked_to_stop = true;
  EXPECT_FALSE(policy.after(outcome, {}, at(1)).restarts);
}

}  // namespace
}  // namespace phalanx::launch
