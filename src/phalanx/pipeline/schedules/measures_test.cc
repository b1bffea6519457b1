// The numbers of docs/schedules.md and of the papers: the times of schedules, and the memory of
// ranks.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/schedules/test_vectors.h"

namespace phalanx {
namespace {

constexpr double kFourDigits = 5.0001e-5;

std::string listed(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    if (!text.empty()) text += ' ';
    text += std::to_string(static_cast<int>(value));
  }
  return text;
}

TEST(ScheduleMeasures, EveryTable) {
  for (const ExpectedSchedule& expected : kExpectedSchedules) {
    for (const ExpectedMeasures& row : expected.measures) {
      if (row.ranks == 0) continue;
      SCOPED_TRACE(testing::Message() << expected.kind << ", " << row.ranks << " ranks, "
                                      << row.microbatches << " microbatches");
      const Schedule schedule =
          schedule_of(expected.kind, row.ranks, row.microbatches, expected.chunks);
      const double ideal = 3.0 * row.microbatches * expected.chunks;
      const TimelineMeasures measures = measures_of(schedule);
      EXPECT_EQ(measures.makespan, row.makespan);
      EXPECT_EQ(measures.span, row.span);
      EXPECT_EQ(measures.ideal, ideal);
      EXPECT_DOUBLE_EQ(measures.idle_fraction, 1.0 - ideal / row.makespan);
      EXPECT_DOUBLE_EQ(measures.bubble_over_ideal, (row.makespan - ideal) / ideal);
      EXPECT_DOUBLE_EQ(measures.span_bubble, (row.span - ideal) / row.span);
      EXPECT_EQ(listed(peak_activations(schedule, 0.0)), row.peak_freed_at_b);
      EXPECT_EQ(listed(peak_activations(schedule, 1.0)), row.peak_freed_at_w);
    }
  }
}

// Table 5 of the zero-bubble paper, with the times it profiled (milliseconds).
TEST(ScheduleMeasures, ZeroBubblePaper) {
  struct Setting {
    int ranks;
    int microbatches;
    Costs costs;
    double rates[3];
  };
  const Setting settings[] = {
      {8, 24, costs_of(18.522, 18.086, 9.337, 0.601), {0.2431, 0.1585, 0.1083}},
      {32, 128, costs_of(10.408, 10.204, 7.703, 0.408), {0.2168, 0.1106, 0.0490}},
  };
  for (const Setting& setting : settings) {
    int column = 0;
    for (const char* kind : {"1f1b", "zb-h1", "zb-h2"}) {
      const Schedule schedule = schedule_of(kind, setting.ranks, setting.microbatches);
      EXPECT_NEAR(measures_of(schedule, setting.costs).span_bubble, setting.rates[column++],
                  kFourDigits)
          << kind << " on " << setting.ranks;
    }
  }
}

TEST(ScheduleMeasures, WhatLatencyCosts) {
  const Costs costs = costs_of(1, 1, 1, 1);
  EXPECT_EQ(measures_of(schedule_of("1f1b", 4, 8), costs).makespan, 49);
  EXPECT_EQ(measures_of(schedule_of("eager-1f1b", 4, 8), costs).makespan, 39);
  EXPECT_EQ(measures_of(schedule_of("zb-h1", 4, 8), costs).makespan, 41);
  EXPECT_EQ(measures_of(schedule_of("zb-h2", 4, 8), costs).makespan, 30);
  EXPECT_EQ(measures_of(schedule_of("interleaved", 4, 8), costs).makespan, 71);
  EXPECT_EQ(measures_of(schedule_of("backward-first", 4, 8), costs).makespan, 93);
}

// With pairs as one piece of work, and as two passes.
TEST(ScheduleMeasures, Pairs) {
  for (const auto& [ranks, atomic, apart] : {std::array{4, 2, 1}, {8, 6, 3}, {16, 14, 7}}) {
    const int microbatches = 3 * ranks;
    const Simulation simulation = simulate(schedule_of("dualpipe", ranks, microbatches), {});
    EXPECT_EQ(simulation.atomic_makespan, 3 * microbatches + atomic) << ranks;
    EXPECT_EQ(simulation.measures.makespan, 3 * microbatches + apart) << ranks;
  }
  const Simulation half = simulate(schedule_of("dualpipe-v", 4, 10), {});
  EXPECT_EQ(half.atomic_makespan, 66);
  EXPECT_EQ(half.measures.makespan, 63);
}

TEST(ScheduleMeasures, Hanayo) {
  struct Bubbles {
    int ranks;
    int waves;
    int chunk_units[3];  // with as many microbatches as ranks, twice, four times as many
  };
  const Bubbles table[] = {
      {4, 1, {12, 9, 9}},  {8, 1, {28, 21, 21}}, {4, 2, {13, 13, 9}},
      {4, 4, {13, 27, 9}}, {8, 2, {30, 25, 21}}, {8, 4, {30, 72, 21}},
  };
  for (const Bubbles& row : table) {
    for (int i = 0; i < 3; ++i) {
      const int microbatches = row.ranks << i;
      const TimelineMeasures measures =
          measures_of(schedule_of("hanayo", row.ranks, microbatches, 2 * row.waves));
      EXPECT_EQ(measures.makespan - measures.ideal, row.chunk_units[i])
          << row.ranks << " ranks, " << microbatches << " microbatches, " << row.waves << " waves";
    }
  }
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(peak_activations(schedule_of("hanayo", 6, 12), 1.0)[static_cast<std::size_t>(rank)],
              12 + rank);
  }
}

}  // namespace
}  // namespace phalanx
