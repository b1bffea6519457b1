// The numbers of docs/schedules.md and of the papers: the times of schedules, and the memory of
// ranks.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "phalanx/pipeline/schedules/test_support.h"

namespace phalanx {
namespace {

constexpr double kFourDigits = 5.0001e-5;

struct Row {
  std::string_view kind;
  int chunks;
  int ranks;
  int microbatches;
  double makespan;
  double span;
  double ideal;
  double idle_fraction;
  double bubble_over_ideal;
  double span_bubble;
  std::string_view peak_freed_at_b;
  std::string_view peak_freed_at_w;
};

// All passes take 1; a fused backward pass takes 2.
constexpr Row kRows[] = {
    {"naive", 1, 2, 4, 24, 24, 12, 0.5000, 1.0000, 0.5000, "1 1", "1 1"},
    {"gpipe", 1, 2, 4, 15, 15, 12, 0.2000, 0.2500, 0.2000, "4 4", "4 4"},
    {"1f1b", 1, 2, 4, 15, 15, 12, 0.2000, 0.2500, 0.2000, "2 1", "2 1"},
    {"eager-1f1b", 1, 2, 4, 15, 15, 12, 0.2000, 0.2500, 0.2000, "3 1", "3 1"},
    {"zb-h1", 1, 2, 4, 13, 13, 12, 0.0769, 0.0833, 0.0769, "2 1", "2 2"},
    {"zb-h2", 1, 2, 4, 13, 12, 12, 0.0769, 0.0833, 0.0000, "3 1", "3 3"},
    {"chimera", 1, 2, 4, 12, 12, 12, 0.0000, 0.0000, 0.0000, "2 2", "2 2"},
    {"dualpipe", 1, 2, 4, 12, 12, 12, 0.0000, 0.0000, 0.0000, "3 3", "3 3"},
    {"naive", 1, 4, 8, 96, 96, 24, 0.7500, 3.0000, 0.7500, "1 1 1 1", "1 1 1 1"},
    {"gpipe", 1, 4, 8, 33, 33, 24, 0.2727, 0.3750, 0.2727, "8 8 8 8", "8 8 8 8"},
    {"1f1b", 1, 4, 8, 33, 33, 24, 0.2727, 0.3750, 0.2727, "4 3 2 1", "4 3 2 1"},
    {"eager-1f1b", 1, 4, 8, 33, 33, 24, 0.2727, 0.3750, 0.2727, "7 5 3 1", "7 5 3 1"},
    {"zb-h1", 1, 4, 8, 27, 27, 24, 0.1111, 0.1250, 0.1111, "4 3 2 1", "4 4 4 4"},
    {"zb-h2", 1, 4, 8, 27, 24, 24, 0.1111, 0.1250, 0.0000, "7 5 3 1", "7 7 7 7"},
    {"chimera", 1, 4, 8, 30, 30, 24, 0.2000, 0.2500, 0.2000, "3 4 4 3", "3 4 4 3"},
    {"dualpipe", 1, 4, 8, 25, 25, 24, 0.0400, 0.0417, 0.0400, "5 5 5 5", "5 5 5 5"},
    {"naive", 1, 4, 4, 48, 48, 12, 0.7500, 3.0000, 0.7500, "1 1 1 1", "1 1 1 1"},
    {"gpipe", 1, 4, 4, 21, 21, 12, 0.4286, 0.7500, 0.4286, "4 4 4 4", "4 4 4 4"},
    {"1f1b", 1, 4, 4, 21, 21, 12, 0.4286, 0.7500, 0.4286, "4 3 2 1", "4 3 2 1"},
    {"eager-1f1b", 1, 4, 4, 21, 21, 12, 0.4286, 0.7500, 0.4286, "4 4 3 1", "4 4 3 1"},
    {"zb-h1", 1, 4, 4, 15, 15, 12, 0.2000, 0.2500, 0.2000, "4 3 2 1", "4 4 4 4"},
    {"zb-h2", 1, 4, 4, 16, 15, 12, 0.2500, 0.3333, 0.2000, "4 4 3 1", "4 4 4 4"},
    {"chimera", 1, 4, 4, 16, 16, 12, 0.2500, 0.3333, 0.2500, "3 4 4 3", "3 4 4 3"},
    {"interleaved", 2, 2, 4, 27, 27, 24, 0.1111, 0.1250, 0.1111, "5 3", "5 3"},
    {"zb-interleaved", 2, 2, 4, 25, 25, 24, 0.0400, 0.0417, 0.0400, "4 3", "4 4"},
    {"looped-bfs", 2, 2, 4, 27, 27, 24, 0.1111, 0.1250, 0.1111, "8 8", "8 8"},
    {"zb-v", 2, 2, 4, 25, 24, 24, 0.0400, 0.0417, 0.0000, "4 4", "4 4"},
    {"backward-first", 2, 2, 4, 28, 28, 24, 0.1429, 0.1667, 0.1429, "6 3", "6 3"},
    {"dualpipe-v", 2, 2, 4, 25, 25, 24, 0.0400, 0.0417, 0.0400, "5 5", "5 5"},
    {"hanayo", 2, 2, 4, 27, 27, 24, 0.1111, 0.1250, 0.1111, "4 5", "4 5"},
    {"interleaved", 2, 4, 8, 57, 57, 48, 0.1579, 0.1875, 0.1579, "11 9 7 5", "11 9 7 5"},
    {"zb-interleaved", 2, 4, 8, 51, 51, 48, 0.0588, 0.0625, 0.0588, "8 7 6 5", "8 8 8 8"},
    {"looped-bfs", 2, 4, 8, 57, 57, 48, 0.1579, 0.1875, 0.1579, "16 16 16 16", "16 16 16 16"},
    {"zb-v", 2, 4, 8, 51, 48, 48, 0.0588, 0.0625, 0.0000, "8 8 8 8", "8 8 8 8"},
    {"backward-first", 2, 4, 8, 63, 63, 48, 0.2381, 0.3125, 0.2381, "12 11 8 5", "12 11 8 5"},
    {"dualpipe-v", 2, 4, 8, 51, 51, 48, 0.0588, 0.0625, 0.0588, "9 9 9 9", "9 9 9 9"},
    {"hanayo", 2, 4, 8, 57, 57, 48, 0.1579, 0.1875, 0.1579, "8 9 10 11", "8 9 10 11"},
    {"interleaved", 2, 4, 4, 33, 33, 24, 0.2727, 0.3750, 0.2727, "8 8 7 5", "8 8 7 5"},
    {"zb-interleaved", 2, 4, 4, 27, 27, 24, 0.1111, 0.1250, 0.1111, "8 7 6 5", "8 8 8 8"},
    {"looped-bfs", 2, 4, 4, 33, 33, 24, 0.2727, 0.3750, 0.2727, "8 8 8 8", "8 8 8 8"},
    {"zb-v", 2, 4, 4, 30, 30, 24, 0.2000, 0.2500, 0.2000, "5 6 7 8", "5 6 7 8"},
    {"backward-first", 2, 4, 4, 35, 35, 24, 0.3143, 0.4583, 0.3143, "8 8 8 5", "8 8 8 5"},
    {"hanayo", 2, 4, 4, 36, 36, 24, 0.3333, 0.5000, 0.3333, "5 6 8 8", "5 6 8 8"},
};

std::string listed(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    if (!text.empty()) text += ' ';
    text += std::to_string(static_cast<int>(value));
  }
  return text;
}

TEST(ScheduleMeasures, EveryTable) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.kind << ", " << row.ranks << " ranks, "
                                    << row.microbatches << " microbatches");
    const Schedule schedule = schedule_of(row.kind, row.ranks, row.microbatches, row.chunks);
    const TimelineMeasures measures = measures_of(schedule);
    EXPECT_EQ(measures.makespan, row.makespan);
    EXPECT_EQ(measures.span, row.span);
    EXPECT_EQ(measures.ideal, row.ideal);
    EXPECT_NEAR(measures.idle_fraction, row.idle_fraction, kFourDigits);
    EXPECT_NEAR(measures.bubble_over_ideal, row.bubble_over_ideal, kFourDigits);
    EXPECT_NEAR(measures.span_bubble, row.span_bubble, kFourDigits);
    EXPECT_EQ(listed(peak_activations(schedule, 0.0)), row.peak_freed_at_b);
    EXPECT_EQ(listed(peak_activations(schedule, 1.0)), row.peak_freed_at_w);
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
