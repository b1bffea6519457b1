#include "phalanx/pipeline/simulator.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

// "F0.0 0-1, B0.0 1-3": one rank's row.
std::string row(const Timeline& timeline, std::size_t rank) {
  std::string text;
  for (const TimedAction& timed : timeline[rank]) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}-{}", to_string(timed.action), timed.begin, timed.end);
  }
  return text;
}

Schedule two_ranks() {
  return listed_schedule(Placement::contiguous(2), 2,
                         {"F0.0 F1.0 B0.0 b1.0 w1.0 reduce.0 step gather",
                          "F0.0 B0.0 F1.0 B1.0 reduce.0 step gather"});
}

TEST(Simulator, APassBeginsWhenItsRankAndItsInputsAreThere) {
  const Simulation simulation = simulate(two_ranks(), costs_of(1, 2, 3));
  EXPECT_EQ(row(simulation.timeline, 0), "F0.0 0-1, F1.0 1-2, B0.0 7-12, b1.0 13-15, w1.0 15-18");
  EXPECT_EQ(row(simulation.timeline, 1), "F0.0 1-2, B0.0 2-7, F1.0 7-8, B1.0 8-13");
}

TEST(Simulator, MessagesTakeTheirTimeBetweenRanksAlone) {
  Costs costs = costs_of(1, 2, 3, 0.5);
  EXPECT_EQ(row(simulate(two_ranks(), costs).timeline, 0),
            "F0.0 0-1, F1.0 1-2, B0.0 8-13, b1.0 14-16, w1.0 16-19");
  // The same time, of which half is the size over the bandwidth.
  costs.latency = 0.25;
  costs.message_bytes = 100.0;
  costs.bandwidth = 400.0;
  EXPECT_EQ(row(simulate(two_ranks(), costs).timeline, 1),
            "F0.0 1.5-2.5, B0.0 2.5-7.5, F1.0 7.5-8.5, B1.0 8.5-13.5");
  // At the turn of a V nothing is sent.
  const auto turn =
      listed_schedule(Placement::wave(2, 2), 1, {"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0"});
  const Simulation simulation = simulate(turn, costs_of(1, 1, 1, 10.0));
  EXPECT_EQ(row(simulation.timeline, 1), "F0.0 11-12, F0.1 12-13, B0.1 36-38, B0.0 38-40");
  EXPECT_EQ(row(simulation.timeline, 0), "F0.0 0-1, F0.1 23-24, B0.1 24-26, B0.0 50-52");
}

TEST(Simulator, EveryStageHasItsCosts) {
  Costs costs;
  costs.stages = {{1, 1, 1}, {2, 3, 4}};
  EXPECT_EQ(row(simulate(two_ranks(), costs).timeline, 1),
            "F0.0 1-3, B0.0 3-10, F1.0 10-12, B1.0 12-19");
  EXPECT_EQ(row(simulate(two_ranks(), costs).timeline, 0),
            "F0.0 0-1, F1.0 1-2, B0.0 10-12, b1.0 19-20, w1.0 20-21");
}

TEST(Simulator, CopiesOfTheModelRunInBothDirections) {
  const auto schedule = listed_schedule(Placement::bidirectional(2), 2,
                                        {"F0.0 F0.1 B0.1 B0.0", "F0.1 F0.0 B0.0 B0.1"});
  const Simulation simulation = simulate(schedule, costs_of(1, 1, 1));
  EXPECT_EQ(row(simulation.timeline, 0), "F0.0 0-1, F0.1 1-2, B0.1 2-4, B0.0 4-6");
  EXPECT_EQ(row(simulation.timeline, 1), "F0.1 0-1, F0.0 1-2, B0.0 2-4, B0.1 4-6");
  EXPECT_EQ(simulation.lower_bound, std::nullopt);
}

TEST(Simulator, ListsThatWaitForEachOtherAreAnError) {
  const auto cyclic =
      listed_schedule(Placement::contiguous(2), 2, {"F0.0 B0.0 F1.0 B1.0", "F0.0 F1.0 B0.0 B1.0"});
  EXPECT_THROW(simulate(cyclic, {}), InternalError);
  for (const char* list : {"B0.0 F0.0", "F0.0 w0.0 b0.0"}) {
    EXPECT_THROW(simulate(listed_schedule(Placement::contiguous(1), 1, {list}), {}), InternalError);
  }
}

// A pair begins when the inputs of both passes are there; their results are there at its end.
TEST(Simulator, PairsInOnePiece) {
  auto schedule =
      listed_schedule(Placement::contiguous(2), 2, {"F0.0 F1.0 B0.0 B1.0", "F0.0 F1.0 B0.0 B1.0"});
  EXPECT_EQ(simulate(schedule, {}).atomic_makespan, std::nullopt);
  schedule.ranks[1][1].paired = true;
  const Simulation simulation = simulate(schedule, costs_of(1, 2, 3));
  // Apart: rank 1 has F0 1-2, F1 2-3, B0 3-8, B1 8-13; in one piece F1 and B0 are 2-8 as well.
  EXPECT_EQ(simulation.measures.makespan, 18.0);
  EXPECT_EQ(simulation.atomic_makespan, 18.0);
  // If the forward pass ends with the pair, passes that need its result come later.
  auto three =
      listed_schedule(Placement::contiguous(3), 2,
                      {"F0.0 F1.0 B0.0 B1.0", "F0.0 F1.0 B0.0 B1.0", "F0.0 B0.0 F1.0 B1.0"});
  three.ranks[1][1].paired = true;
  const Simulation later = simulate(three, {});
  EXPECT_EQ(row(later.timeline, 1), "F0.0 1-2, F1.0 2-3, B0.0 5-7, B1.0 8-10");
  EXPECT_EQ(later.measures.makespan, 12.0);
  EXPECT_EQ(row(later.timeline, 2), "F0.0 2-3, B0.0 3-5, F1.0 5-6, B1.0 6-8");
  // The pair is 5-8, so rank 2 has F1 8-9 and B1 9-11.
  EXPECT_EQ(later.atomic_makespan, 15.0);
}

TEST(LowerBound, HeadWorkAndTailOfTheLastRank) {
  const auto bound = [](const char* kind, const Costs& costs) {
    return simulate(schedule_of(kind, 4, 8), costs).lower_bound;
  };
  EXPECT_EQ(bound("zb-h1", costs_of(1, 1, 1)), 3.0 + 24.0);
  EXPECT_EQ(bound("1f1b", costs_of(1, 1, 1)), 9.0 + 24.0);
  EXPECT_EQ(bound("zb-h1", costs_of(1, 2, 3, 0.5)), 3 * 1.5 + 48.0);
  EXPECT_EQ(bound("1f1b", costs_of(1, 2, 3, 0.5)), 3 * 1.5 + 48.0 + 3 * 5.5);
  EXPECT_EQ(bound("interleaved", costs_of(1, 1, 1)), 9.0 + 48.0);
  EXPECT_EQ(bound("zb-v", costs_of(1, 1, 1)), 3.0 + 48.0);
  // One rank that has more to do than the last one.
  Costs costs = costs_of(1, 1, 1);
  costs.stages = {{1, 1, 1}, {4, 4, 4}, {1, 1, 1}, {1, 1, 1}};
  EXPECT_EQ(bound("1f1b", costs), 1.0 + 8 * 12.0 + 2.0);
  EXPECT_EQ(
      simulate(forward_only_schedule(Placement::contiguous(4), 8), costs_of(1, 1, 1)).lower_bound,
      3.0 + 8.0);
}

// Measured timelines begin at any time, have gaps everywhere and other actions than passes.
TEST(Measure, AnyTimeline) {
  const Action forward = pass(ActionKind::kForward, 0, 0);
  const Action backward = pass(ActionKind::kBackward, 0, 0);
  const Timeline timeline = {
      {{forward, 10.0, 11.0},
       {{.kind = ActionKind::kSend}, 11.0, 12.0},
       {backward, 14.0, 17.0},
       {{.kind = ActionKind::kOptimizerStep}, 17.0, 30.0}},
      {{{.kind = ActionKind::kReceive}, 0.0, 12.0}, {forward, 12.0, 13.0}, {backward, 13.0, 15.0}},
  };
  const TimelineMeasures measures = measure(timeline);
  EXPECT_EQ(measures.makespan, 7.0);
  EXPECT_EQ(measures.span, 7.0);
  EXPECT_EQ(measures.ideal, 4.0);
  EXPECT_EQ(measures.idle_fraction, 0.5);
  EXPECT_EQ(measures.bubble_over_ideal, 0.75);
  EXPECT_EQ(measures.span_bubble, 3.0 / 7.0);
}

TEST(Measure, SpanIsOfOneRank) {
  const Action forward = pass(ActionKind::kForward, 0, 0);
  const TimelineMeasures measures = measure({{{forward, 0.0, 4.0}}, {{forward, 3.0, 8.0}}});
  EXPECT_EQ(measures.makespan, 8.0);
  EXPECT_EQ(measures.span, 5.0);
  EXPECT_EQ(measures.span_bubble, 0.0);
  EXPECT_EQ(measures.bubble_over_ideal, 0.6);
  EXPECT_EQ(measure({}).makespan, 0.0);
  EXPECT_EQ(measure({{}, {}}).idle_fraction, 0.0);
}

TEST(PeakActivations, WhatEachPassFreesAndKeeps) {
  const auto schedule = listed_schedule(
      Placement::contiguous(2), 3,
      {"F0.0 F1.0 b0.0 F2.0 b1.0 b2.0 w0.0 w1.0 w2.0", "F0.0 B0.0 F1.0 b1.0 F2.0 b2.0 w1.0 w2.0"});
  EXPECT_THAT(peak_activations(schedule, 0.0), ElementsAre(2.0, 1.0));
  EXPECT_THAT(peak_activations(schedule, 1.0), ElementsAre(3.0, 2.0));
  EXPECT_THAT(peak_activations(schedule, 0.25), ElementsAre(2.25, 1.25));
}

}  // namespace
}  // namespace phalanx
