#include "phalanx/launch/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx::launch {
namespace {

using testing::HasSubstr;
using Iteration = std::optional<std::int64_t>;

Outcome failed(int status) { return {.exit_status = status, .culprit = {}, .failed = 1}; }

TEST(RestartPolicy, DependsOnTheExitStatus) {
  for (const int status : {69, 70, 74, 75, 124, 1}) {
    RestartPolicy policy(5, true);
    EXPECT_TRUE(policy.after(failed(status), {}, {}).restarts) << status;
  }
  for (const int status : {64, 65, 66, 71, 73, 77, 78, 85, 93, 130}) {
    RestartPolicy policy(5, true);
    const NextStep step = policy.after(failed(status), {}, 1);
    EXPECT_FALSE(step.restarts) << status;
    EXPECT_EQ(step.exit_status, status);
  }
}

TEST(RestartPolicy, NotBesideAProcessThatCannotBeEnded) {
  RestartPolicy policy(5, true);
  Outcome outcome = failed(74);
  outcome.left_behind = 1;
  const NextStep step = policy.after(outcome, {}, 1);
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 74);
  EXPECT_THAT(step.why, HasSubstr("cannot be ended"));
}

TEST(RestartPolicy, EndsWhereNothingFailed) {
  RestartPolicy policy(5, true);
  EXPECT_FALSE(policy.after({.exit_status = 0, .culprit = {}, .finished = 2}, {}, 1).restarts);
  EXPECT_EQ(policy.after({.exit_status = 85, .culprit = {}, .preempted = 2}, {}, 1).exit_status,
            85);
}

TEST(RestartPolicy, AnInternalErrorIsTriedOnce) {
  RestartPolicy policy(5, true);
  EXPECT_TRUE(policy.after(failed(70), {}, 1).restarts);
  EXPECT_TRUE(policy.after(failed(75), 1, 2).restarts);
  const NextStep step = policy.after(failed(70), 2, 3);
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 70);
}

TEST(RestartPolicy, RestartsAreCounted) {
  RestartPolicy policy(2, true);
  EXPECT_TRUE(policy.after(failed(75), {}, 1).restarts);
  EXPECT_TRUE(policy.after(failed(75), 1, 2).restarts);
  const NextStep step = policy.after(failed(75), 2, 3);
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 75);
  RestartPolicy none(0, true);
  EXPECT_FALSE(none.after(failed(75), {}, 1).restarts);
}

TEST(RestartPolicy, ThreeRestartsWithoutProgressEnd) {
  RestartPolicy policy(3, true);
  EXPECT_TRUE(policy.after(failed(75), {}, 5).restarts);
  EXPECT_TRUE(policy.after(failed(75), 5, 5).restarts);
  EXPECT_TRUE(policy.after(failed(75), 5, 5).restarts);
  const NextStep step = policy.after(failed(75), 5, 5);
  EXPECT_FALSE(step.restarts);
  EXPECT_EQ(step.exit_status, 93);
  EXPECT_THAT(step.why, HasSubstr("iteration 5"));
}

TEST(RestartPolicy, ProgressBeginsTheCountAnew) {
  RestartPolicy policy(100, true);
  Iteration before;
  for (int i = 0; i < 20; ++i) {
    const Iteration now = i / 3;  // something new every third time
    EXPECT_TRUE(policy.after(failed(75), before, now).restarts) << i;
    before = now;
  }
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
  EXPECT_FALSE(policy.after(outcome, {}, 1).restarts);
}

}  // namespace
}  // namespace phalanx::launch
