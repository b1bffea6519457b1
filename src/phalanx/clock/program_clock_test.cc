#include "phalanx/clock/program_clock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "phalanx/clock/program_clock_test_support.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/schedules/test_vectors.h"

namespace phalanx {
namespace {

// The programs of a schedule, whose passes cost what the simulator is told.
std::vector<ClockRank> programs_of(const Schedule& schedule, const Costs& costs) {
  std::vector<ClockRank> ranks;
  int rank = 0;
  for (Program& program : lower(schedule, costs)) {
    ClockRank clocked{.actions = std::move(program.actions)};
    for (const Action& action : clocked.actions) {
      ClockAction cost;
      if (is_pass(action.kind)) {
        const int stage = schedule.placement.stage(rank, action.chunk);
        cost.events.push_back(compute(costs.stage(stage).of(action.kind)));
      }
      if (action.kind == ActionKind::kSend) cost.message.seconds = costs.message();
      clocked.numbers.push_back(clocked.distinct.size());
      clocked.distinct.push_back(cost);
    }
    ranks.push_back(std::move(clocked));
    ++rank;
  }
  return ranks;
}

double sum_of(const std::array<double, kTimeParts>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

void expect_path_without_gaps(const ClockedStep& step) {
  double sum = 0.0;
  for (const CriticalStep& part : step.critical_path) {
    EXPECT_GE(part.seconds, 0.0);
    sum += part.seconds;
  }
  EXPECT_NEAR(sum, step.seconds, 1e-12 * step.seconds);
}

// Every kind of schedule: all passes begin and end when the simulator says.
void expect_times_of_simulator(const Costs& costs) {
  for (const ExpectedSchedule& expected : kExpectedSchedules) {
    for (const ExpectedMeasures& row : expected.measures) {
      if (row.ranks == 0) continue;
      SCOPED_TRACE(testing::Message() << expected.kind << ", " << row.ranks << " ranks, "
                                      << row.microbatches << " microbatches");
      const Schedule schedule =
          schedule_of(expected.kind, row.ranks, row.microbatches, expected.chunks);
      const Simulation simulation = simulate(schedule, costs);
      const ClockedStep step =
          clock_programs(programs_of(schedule, costs), {}, MessageStart::kBuffered);
      EXPECT_NEAR(measure(step.timeline).makespan, simulation.measures.makespan,
                  1e-12 * simulation.measures.makespan);
      for (std::size_t rank = 0; rank < step.timeline.size(); ++rank) {
        ASSERT_EQ(step.timeline[rank].size(), simulation.timeline[rank].size());
        for (std::size_t i = 0; i < step.timeline[rank].size(); ++i) {
          EXPECT_EQ(step.timeline[rank][i].action, simulation.timeline[rank][i].action);
          EXPECT_NEAR(step.timeline[rank][i].begin, simulation.timeline[rank][i].begin, 1e-9);
        }
        EXPECT_NEAR(sum_of(step.parts[rank]), step.seconds, 1e-12 * step.seconds);
      }
      expect_path_without_gaps(step);
    }
  }
}

TEST(ProgramClock, PassesOfEveryScheduleWithoutMessages) {
  expect_times_of_simulator(costs_of(1, 1, 1));
  expect_times_of_simulator(costs_of(2, 3, 1.5));
}

TEST(ProgramClock, PassesOfEveryScheduleWithMessages) {
  expect_times_of_simulator(costs_of(1, 1, 1, 0.125));
}

// A receive that is begun late starts its message late: never faster than the simulator.
TEST(ProgramClock, ARendezvousIsNeverFaster) {
  const Costs costs = costs_of(1, 1, 1, 0.5);
  for (const char* kind : {"gpipe", "1f1b", "eager-1f1b", "interleaved", "zb-h1", "zb-v"}) {
    const Schedule schedule = schedule_of(kind, 4, 8);
    const std::vector<ClockRank> ranks = programs_of(schedule, costs);
    const double buffered = clock_programs(ranks, {}, MessageStart::kBuffered).seconds;
    const ClockedStep met = clock_programs(ranks);
    EXPECT_GE(met.seconds, buffered - 1e-12) << kind;
    expect_path_without_gaps(met);
  }
}

ClockedStep clocked(const std::vector<ClockEvent>& events, double host_seconds = 0.0) {
  return clock_programs({rank_of(events, 0, host_seconds)});
}

TEST(ProgramClock, AMessageIsHiddenByWhatIsComputedBesideIt) {
  const ClockedStep hidden = clocked({begin(1, 2.0), compute(3.0), await(1), compute(1.0)});
  EXPECT_DOUBLE_EQ(hidden.seconds, 4.0);
  EXPECT_DOUBLE_EQ(part_of(hidden, TimePart::kTensor), 0.0);
  const ClockedStep exposed = clocked({begin(1, 2.0), compute(0.5), await(1), compute(1.0)});
  EXPECT_DOUBLE_EQ(exposed.seconds, 3.0);
  EXPECT_DOUBLE_EQ(part_of(exposed, TimePart::kTensor), 1.5);
  // One that is never waited for costs nothing.
  EXPECT_DOUBLE_EQ(clocked({begin(1, 2.0), compute(0.5)}).seconds, 0.5);
}

TEST(ProgramClock, AWaitIsOfTheLastBeginOfItsToken) {
  const ClockedStep step = clocked({begin(1, 5.0), await(1), begin(1, 1.0), await(1)});
  EXPECT_DOUBLE_EQ(step.seconds, 6.0);
  EXPECT_DOUBLE_EQ(clocked({begin(1, 5.0), begin(1, 1.0, TimePart::kData), await(1)}).seconds, 1.0);
  // A token that this step has not begun is of the step before.
  EXPECT_DOUBLE_EQ(clocked({await(7), compute(1.0)}).seconds, 1.0);
}

TEST(ProgramClock, MessagesOfAChannelFollowEachOther) {
  const ClockedStep behind = clocked({begin(1, 2.0), begin(2, 2.0), compute(1.0), await(2)});
  EXPECT_DOUBLE_EQ(behind.seconds, 4.0);
  // What is before it in the channel is traffic of this rank, no work of another one.
  EXPECT_DOUBLE_EQ(part_of(behind, TimePart::kTensor), 3.0);
  EXPECT_DOUBLE_EQ(part_of(behind, TimePart::kBubble), 0.0);
  const ClockedStep apart =
      clocked({begin(1, 2.0), begin(2, 2.0, TimePart::kData), compute(1.0), await(2)});
  EXPECT_DOUBLE_EQ(apart.seconds, 2.0);
}

TEST(ProgramClock, WhatIsHiddenSlowsDownInPart) {
  ClockEvent message = begin(1, 2.0);
  message.slows = 0.25;
  EXPECT_DOUBLE_EQ(clocked({message, compute(3.0), await(1)}).seconds, 3.5);
  // Half of it is exposed: the other half slows down.
  EXPECT_DOUBLE_EQ(clocked({message, compute(1.0), await(1)}).seconds, 2.25);
}

TEST(ProgramClock, AnActionIsNotShorterThanItsHost) {
  const ClockedStep step = clocked({compute(1.0)}, 1.75);
  EXPECT_DOUBLE_EQ(step.seconds, 1.75);
  EXPECT_DOUBLE_EQ(part_of(step, TimePart::kHost), 0.75);
  EXPECT_DOUBLE_EQ(clocked({compute(1.0)}, 0.5).seconds, 1.0);
}

ClockEvent sum_of_both(int token, double seconds) {
  ClockEvent sum = begin(token, seconds, TimePart::kData);
  sum.meeting = 0;
  return sum;
}

// Ranks of the pipeline that sum something together go on when the last one has come.
TEST(ProgramClock, AMeetingWaitsForTheLastRank) {
  const auto summing = [](double seconds) {
    return rank_of({compute(seconds), sum_of_both(1, 0.5), await(1)});
  };
  const ClockedStep step = clock_programs({summing(1.0), summing(4.0)}, {{0, 1}});
  EXPECT_DOUBLE_EQ(step.seconds, 4.5);
  EXPECT_DOUBLE_EQ(step.timeline[0][0].end, 4.5);
  EXPECT_DOUBLE_EQ(part_of(step, TimePart::kData, 0), 0.5);
  EXPECT_DOUBLE_EQ(part_of(step, TimePart::kBubble, 0), 3.0);
  EXPECT_DOUBLE_EQ(part_of(step, TimePart::kBubble, 1), 0.0);
  // The first rank is the last.
  const ClockedStep other = clock_programs({summing(4.0), summing(1.0)}, {{0, 1}});
  EXPECT_DOUBLE_EQ(other.timeline[1][0].end, 4.5);
  EXPECT_DOUBLE_EQ(part_of(other, TimePart::kBubble, 1), 3.0);
  EXPECT_DOUBLE_EQ(part_of(other, TimePart::kBubble, 0), 0.0);
}

TEST(ProgramClock, AMessageQueuesBehindAMeetingOfItsChannel) {
  const ClockRank early = rank_of({sum_of_both(1, 0.5), begin(2, 1.0, TimePart::kData), await(2)});
  const ClockRank late = rank_of({compute(4.0), sum_of_both(1, 0.5), await(1)});
  const ClockedStep step = clock_programs({early, late}, {{0, 1}});
  EXPECT_DOUBLE_EQ(step.timeline[0][0].end, 5.5);
  // And a meeting behind what each rank moves before it.
  const ClockRank busy = rank_of({begin(2, 3.0, TimePart::kData), sum_of_both(1, 0.5), await(1)});
  const ClockRank idle = rank_of({sum_of_both(1, 0.5), await(1)});
  EXPECT_DOUBLE_EQ(clock_programs({busy, idle}, {{0, 1}}).timeline[1][0].end, 3.5);
}

}  // namespace
}  // namespace phalanx
