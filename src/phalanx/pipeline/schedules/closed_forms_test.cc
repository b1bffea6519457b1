// What the papers prove, over a sweep of sizes and costs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/test_support.h"

namespace phalanx {
namespace {

constexpr int kMostRanks = 8;
constexpr int kMostMicrobatches = 20;

// Calls check(ranks, microbatches) with at least `fewest(ranks)` microbatches.
template <typename Fewest, typename Check>
void sweep(const Fewest& fewest, const Check& check) {
  for (int p = 1; p <= kMostRanks; ++p) {
    for (int m = fewest(p); m <= kMostMicrobatches; ++m) {
      SCOPED_TRACE(testing::Message() << p << " ranks, " << m << " microbatches");
      check(p, m);
    }
  }
}
int any_number(int) { return 1; }
int one_for_each(int ranks) { return ranks; }

// By a formula peak(rank), in activations of which `kept` lives until the weight gradient.
template <typename Peak>
void expect_peaks(const Schedule& schedule, double kept, const Peak& peak) {
  const std::vector<double> peaks = peak_activations(schedule, kept);
  for (int r = 0; r < schedule.placement.ranks(); ++r) {
    EXPECT_EQ(peaks[static_cast<std::size_t>(r)], peak(r)) << "rank " << r;
  }
}

TEST(ClosedForms, FusedOnOneChunk) {
  const Costs costs = costs_of(2, 3, 1.5);
  const double pass = 6.5;
  sweep(any_number, [&](int p, int m) {
    EXPECT_EQ(measures_of(schedule_of("naive", p, m), costs).makespan, m * p * pass);
    for (const char* kind : {"gpipe", "1f1b", "eager-1f1b", "pipedream"}) {
      EXPECT_EQ(measures_of(schedule_of(kind, p, m), costs).makespan, (m + p - 1) * pass) << kind;
    }
    expect_peaks(schedule_of("naive", p, m), 1.0, [](int) { return 1; });
    expect_peaks(schedule_of("gpipe", p, m), 1.0, [m](int) { return m; });
    expect_peaks(schedule_of("1f1b", p, m), 1.0, [p, m](int r) { return std::min(p - r, m); });
    expect_peaks(schedule_of("eager-1f1b", p, m), 1.0,
                 [p, m](int r) { return std::min(2 * (p - 1 - r) + 1, m); });
  });
}

TEST(ClosedForms, Interleaved) {
  for (const int v : {1, 2, 3, 4}) {
    sweep(one_for_each, [&](int p, int m) {
      if (p == 1 && v > 1) return;
      const Schedule schedule = schedule_of("interleaved", p, m, v);
      EXPECT_EQ(measures_of(schedule).makespan, 3 * (m * v + p - 1));
      const int groups = m / p;
      const int largest = (m + groups - 1) / groups;
      expect_peaks(schedule, 1.0,
                   [&](int r) { return std::min(2 * (p - 1 - r) + (v - 1) * largest + 1, m * v); });
    });
  }
  // Larger groups go first.
  EXPECT_THAT(passes_of(schedule_of("interleaved", 4, 9)),
              testing::StartsWith("F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.0 "));
  EXPECT_EQ(measures_of(schedule_of("interleaved", 4, 3)).makespan, 18 + 12);
  EXPECT_EQ(measures_of(schedule_of("interleaved", 4, 2)).makespan, 12 + 15);
}

Schedule grouped(int ranks, int microbatches, int chunks, int group_size) {
  return make_schedule(
      "interleaved",
      {.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .group_size = group_size});
}

TEST(ClosedForms, InterleavedInGroups) {
  // Any group of at least the ranks, also the last, costs nothing but memory.
  for (const int v : {2, 3}) {
    for (int p = 2; p <= 6; ++p) {
      for (int m = p; m <= 24; ++m) {
        for (int g = p; g <= m; ++g) {
          if (m % g != 0 && m % g < p) continue;
          const Schedule schedule = grouped(p, m, v, g);
          EXPECT_EQ(measures_of(schedule).makespan, 3 * (m * v + p - 1));
          expect_peaks(schedule, 1.0,
                       [&](int r) { return std::min(2 * (p - 1 - r) + (v - 1) * g + 1, m * v); });
        }
      }
    }
  }
  // Other groups are slower, or their ranks wait for each other for ever.
  EXPECT_EQ(measures_of(grouped(4, 10, 2, 4)).makespan, 79);
  EXPECT_EQ(measures_of(grouped(4, 6, 2, 4)).makespan, 55);
  EXPECT_EQ(measures_of(grouped(4, 8, 2, 6)).makespan, 62);
  EXPECT_EQ(measures_of(grouped(4, 13, 2, 5)).makespan, 78 + 11);
  EXPECT_THROW(measures_of(grouped(3, 3, 2, 1)), InternalError);
  EXPECT_THROW(measures_of(grouped(4, 5, 3, 4)), InternalError);
  EXPECT_THROW(measures_of(grouped(5, 7, 2, 5)), InternalError);
  EXPECT_THROW(measures_of(grouped(5, 31, 3, 6)), InternalError);
  // More than all passes means all passes.
  EXPECT_EQ(passes_of(grouped(4, 6, 2, 9)), passes_of(grouped(4, 6, 2, 6)));
}

TEST(ClosedForms, LoopedBfs) {
  for (const int v : {2, 3}) {
    sweep(one_for_each, [&](int p, int m) {
      if (p == 1) return;
      const Schedule schedule = schedule_of("looped-bfs", p, m, v);
      EXPECT_EQ(measures_of(schedule).makespan, 3 * (m * v + p - 1));
      expect_peaks(schedule, 1.0, [&](int) { return m * v; });
    });
  }
  EXPECT_EQ(measures_of(schedule_of("looped-bfs", 4, 2)).makespan, 12 + 15);
}

// Calls check(forward, backward_input, backward_weight) with all costs of 1 to 4.
template <typename Check>
void sweep_costs(const Check& check) {
  for (int f = 1; f <= 4; ++f) {
    for (int b = 1; b <= 4; ++b) {
      for (int w = 1; w <= 4; ++w) {
        SCOPED_TRACE(testing::Message() << "costs " << f << ", " << b << ", " << w);
        check(f, b, w);
      }
    }
  }
}

TEST(ClosedForms, ZeroBubbleCosts) {
  const Schedule h1 = schedule_of("zb-h1", 4, 8);
  const Schedule h2 = schedule_of("zb-h2", 4, 8);
  const Schedule interleaved = schedule_of("zb-interleaved", 4, 8);
  int checked = 0;
  sweep_costs([&](int f, int b, int w) {
    const Costs costs = costs_of(f, b, w);
    const int ideal = 8 * (f + b + w);
    EXPECT_EQ(measures_of(h1, costs).span, ideal + 3 * std::max(f + b - w, b));
    EXPECT_EQ(measures_of(interleaved, costs).span, 2 * ideal + 3 * std::max(f + b - w, b));
    if (w <= b) {
      EXPECT_EQ(measures_of(interleaved, costs).makespan, 2 * ideal + 3 * std::max(f + b - w, b));
    }
    if (w <= f && 2 * w <= f + b) {
      EXPECT_EQ(measures_of(h2, costs).span, ideal + 3 * (f + b - 2 * w));
      ++checked;
    }
  });
  EXPECT_GT(checked, 10);
}

TEST(ClosedForms, ZeroBubbleSizes) {
  sweep(one_for_each, [](int p, int m) {
    const Schedule h1 = schedule_of("zb-h1", p, m);
    EXPECT_EQ(measures_of(h1).makespan, p - 1 + 3 * m);
    expect_peaks(h1, 1.0, [&](int) { return p; });
    expect_peaks(h1, 0.0, [&](int r) { return p - r; });
    const Schedule h2 = schedule_of("zb-h2", p, m);
    expect_peaks(h2, 1.0, [&](int) { return std::min(2 * p - 1, m); });
    expect_peaks(h2, 0.0, [&](int r) { return std::min(2 * (p - r) - 1, m); });
    if (m < 2 * p - 1) return;
    EXPECT_EQ(measures_of(h2).span, 3 * m);
    expect_peaks(h1, 0.5, [&](int r) { return p - r + 0.5 * r; });
    expect_peaks(h2, 0.5, [&](int r) { return 2 * (p - r) - 1 + r; });
  });
}

TEST(ClosedForms, BetweenH1AndH2) {
  for (int ahead = 0; ahead < 4; ++ahead) {
    Schedule schedule = schedule_of("zb-h1", 4, 8);
    schedule.ranks = zero_bubble_passes({.ranks = 4, .microbatches = 8}, ahead);
    EXPECT_EQ(measures_of(schedule).span, 27 - ahead);
    const std::vector<double> peaks = peak_activations(schedule, 0.5);
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), 4 + ahead);
  }
}

TEST(ClosedForms, InterleavedZeroBubbleSizes) {
  for (const int v : {2, 3, 4}) {
    sweep(one_for_each, [&](int p, int m) {
      if (p == 1) return;
      const Schedule schedule = schedule_of("zb-interleaved", p, m, v);
      EXPECT_EQ(measures_of(schedule).makespan, 3 * m * v + p - 1);
      const int groups = m / p;
      const int largest = (m + groups - 1) / groups;
      expect_peaks(schedule, 1.0, [&](int) { return std::min(p + (v - 1) * largest, m * v); });
    });
  }
}

TEST(ClosedForms, ZeroBubbleV) {
  sweep([](int p) { return 2 * p - 1; },
        [](int p, int m) {
          const Schedule schedule = schedule_of("zb-v", p, m);
          EXPECT_EQ(measures_of(schedule).span, 6 * m);
          EXPECT_EQ(measures_of(schedule).makespan, 6 * m + p - 1);
          for (const double kept : {0.0, 1.0}) {
            expect_peaks(schedule, kept, [&](int) { return 2 * p; });
          }
        });
  // Not of equal times it is not without bubbles.
  EXPECT_EQ(measures_of(schedule_of("zb-v", 4, 8), costs_of(2, 3, 1)).span, 8 * 12 + 12);
  EXPECT_EQ(measures_of(schedule_of("zb-v", 4, 8), costs_of(3, 3, 2)).span, 8 * 16 + 6);
}

TEST(ClosedForms, Chimera) {
  const Costs slots = costs_of(1, 0.5, 0.5);
  for (const int p : {2, 4, 6, 8}) {
    for (const int units : {1, 2, 3}) {
      const int m = p * units;
      const Schedule schedule = schedule_of("chimera", p, m);
      EXPECT_EQ(measures_of(schedule, slots).makespan, 2 * m + p - 2);
      expect_peaks(schedule, 1.0, [&](int r) { return p / 2 + std::min(r, p - 1 - r) + 1; });
      if (units > 1) continue;
      EXPECT_DOUBLE_EQ(measures_of(schedule).idle_fraction, (p - 2) / (1.5 * m + p - 2));
    }
  }
  EXPECT_EQ(measures_of(schedule_of("chimera", 4, 6), slots).makespan, 16);
}

TEST(ClosedForms, DualPipe) {
  for (const int p : {2, 4, 6, 8}) {
    for (int m = 2 * p; m <= 4 * p; m += 2) {
      const Schedule both = schedule_of("dualpipe", p, m);
      EXPECT_EQ(measures_of(both).makespan, 3 * m + p / 2 - 1);
      EXPECT_EQ(simulate(both, {}).atomic_makespan, 3 * m + 2 * (p / 2 - 1));
      expect_peaks(both, 1.0, [p](int) { return p + 1; });
    }
  }
  for (int p = 1; p <= 6; ++p) {
    for (int m = 2 * p; m <= 4 * p; ++m) {
      const Schedule half = schedule_of("dualpipe-v", p, m);
      EXPECT_EQ(measures_of(half).makespan, 6 * m + p - 1);
      EXPECT_EQ(simulate(half, {}).atomic_makespan, 6 * m + 2 * (p - 1));
      expect_peaks(half, 1.0, [p](int) { return 2 * p + 1; });
    }
  }
}

}  // namespace
}  // namespace phalanx
