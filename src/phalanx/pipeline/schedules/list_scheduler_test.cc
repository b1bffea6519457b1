#include "phalanx/pipeline/schedules/list_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "phalanx/pipeline/schedules/test_support.h"

namespace phalanx {
namespace {

Schedule schedule_by(const ListRule& rule, const Placement& placement, int microbatches) {
  return {.kind = "test",
          .placement = placement,
          .microbatches = microbatches,
          .ranks = list_schedule(placement, microbatches, rule).ranks};
}

double highest_peak(const Schedule& schedule) {
  const std::vector<double> peaks = peak_activations(schedule, 0.0);
  return *std::max_element(peaks.begin(), peaks.end());
}

constexpr ListRule kRules[] = {
    {ListRule::Prefer::kAlternate, ListRule::BackwardOrder::kLowestMicrobatch},
    {ListRule::Prefer::kAlternate, ListRule::BackwardOrder::kDeepestStage},
    {ListRule::Prefer::kBackward, ListRule::BackwardOrder::kLowestMicrobatch},
    {ListRule::Prefer::kBackward, ListRule::BackwardOrder::kDeepestStage},
};

// The scheduler's own clock and count are those of the simulator.
TEST(ListScheduler, KnowsItsMakespanAndPeak) {
  for (const ListRule& rule : kRules) {
    for (const int microbatches : {1, 4, 9}) {
      const Placement placement = Placement::wave(4, 4);
      const ListSchedule lists = list_schedule(placement, microbatches, rule);
      const Schedule schedule = schedule_by(rule, placement, microbatches);
      EXPECT_EQ(lists.makespan, measures_of(schedule).makespan);
      EXPECT_EQ(lists.peak, highest_peak(schedule));
    }
  }
}

// Hanayo's rule has the smallest makespan, then the smallest peak, then is the first.
TEST(ListScheduler, HanayoIsTheBestOfFour) {
  int decided_by_peak = 0;
  int decided_by_place = 0;
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 12; ++m) {
      for (const int chunks : {2, 4}) {
        const Placement placement = Placement::wave(p, chunks);
        std::vector<std::tuple<double, double, std::string>> all;
        for (const ListRule& rule : kRules) {
          const Schedule schedule = schedule_by(rule, placement, m);
          all.emplace_back(measures_of(schedule).makespan, highest_peak(schedule),
                           passes_of(schedule));
        }
        const auto key = [](const auto& one) {
          return std::tie(std::get<0>(one), std::get<1>(one));
        };
        const auto best = std::min_element(
            all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
        EXPECT_EQ(passes_of(schedule_of("hanayo", p, m, chunks)), std::get<2>(*best));
        for (const auto& other : all) {
          const bool ties = std::get<0>(other) == std::get<0>(*best);
          if (ties && std::get<1>(other) > std::get<1>(*best)) ++decided_by_peak;
          if (key(other) == key(*best) && std::get<2>(other) != std::get<2>(*best))
            ++decided_by_place;
        }
      }
    }
  }
  EXPECT_GT(decided_by_peak, 0);
  EXPECT_GT(decided_by_place, 0);
}

}  // namespace
}  // namespace phalanx
