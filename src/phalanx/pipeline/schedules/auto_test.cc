#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/pipeline/schedules/order_cost.h"
#include "phalanx/pipeline/schedules/order_search.h"
#include "phalanx/pipeline/schedules/test_support.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

struct Case {
  int ranks;
  int microbatches;
  Costs costs;
  double memory_limit;
  double span;  // of the zero-bubble paper's heuristic (the last: 0.78 less than that)
};

std::vector<Case> reference_cases() {
  const Costs large = costs_of(18.522, 18.086, 9.337, 0.601);
  const Costs larger = costs_of(29.802, 29.428, 19.53, 0.577);
  return {
      {4, 8, costs_of(1, 1, 1), 4, 27},   {4, 8, costs_of(1, 1, 1), 7, 24},
      {4, 12, costs_of(5, 6, 4), 5, 193}, {4, 12, costs_of(5, 6, 4), 7, 183},
      {8, 24, large, 8, 1310.405},        {8, 24, large, 16, 1152.599},
      {8, 32, larger, 8, 2814.376},       {8, 32, larger, 16, 2525.000},
  };
}

TEST(Auto, IsAsFastAsThePaper) {
  for (const Case& c : reference_cases()) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks, " << c.microbatches
                                    << " microbatches, memory " << c.memory_limit);
    const Schedule schedule = make_schedule("auto", {.ranks = c.ranks,
                                                     .microbatches = c.microbatches,
                                                     .costs = c.costs,
                                                     .memory_limit = c.memory_limit});
    verify(schedule);
    EXPECT_EQ(training_obstacle(schedule), std::nullopt);
    EXPECT_LE(measures_of(schedule, c.costs).span, c.span + 0.0005);
    EXPECT_LE(most(peak_activations(schedule, kKeptForWeightGradient)), c.memory_limit);
  }
}

// In any shape no kind is faster.
TEST(Auto, IsNoSlowerThanTheKinds) {
  const Costs costs = costs_of(2, 3, 1.5, 0.25);
  for (int chunks = 1; chunks <= 3; ++chunks) {
    for (const auto& [ranks, microbatches] : {std::pair{2, 5}, {3, 3}, {4, 8}}) {
      const ScheduleRequest request{
          .ranks = ranks, .microbatches = microbatches, .chunks = chunks, .costs = costs};
      const Schedule best = make_schedule("auto", request);
      EXPECT_EQ(training_obstacle(best), std::nullopt);
      for (const ScheduleKind& kind : schedule_kinds()) {
        if (kind.update != UpdateRule::kFlush || kind.directions() > 1) continue;
        std::optional<Schedule> other;
        try {
          other = make_schedule(kind.name, request);
        } catch (const ConfigError&) {
          continue;  // the kind has no order for these numbers
        }
        EXPECT_LE(measures_of(best, costs).span, measures_of(*other, costs).span * (1 + 1e-9))
            << kind.name << " " << ranks << " " << chunks;
      }
    }
  }
}

std::string refusal(const ScheduleRequest& request) {
  return error_of<ConfigError>([&] { make_schedule("auto", request); });
}

TEST(Auto, FitsOrSaysWhatWould) {
  EXPECT_THAT(refusal({.ranks = 4, .microbatches = 8, .memory_limit = 0.5}),
              HasSubstr("the least that one needs is 1"));
  EXPECT_THAT(refusal({.ranks = 4, .microbatches = 8, .chunks = 3, .memory_limit = 2.0}),
              HasSubstr("the least that one needs is 3"));
  for (const double limit : {1.0, 1.5, 2.0, 3.0, 4.0, 5.5}) {
    const Schedule schedule =
        make_schedule("auto", {.ranks = 4, .microbatches = 8, .memory_limit = limit});
    EXPECT_LE(most(peak_activations(schedule, kKeptForWeightGradient)), limit);
  }
  Costs three;
  three.stages.resize(3);
  EXPECT_THAT(refusal({.ranks = 4, .microbatches = 8, .costs = three}), HasSubstr("costs of 3"));
  three.stages.resize(4, {5, 1, 1});
  EXPECT_EQ(refusal({.ranks = 4, .microbatches = 8, .costs = three}), "no error");
}

TEST(Auto, IsTheSameEveryTime) {
  const ScheduleRequest request{.ranks = 4, .microbatches = 9, .costs = costs_of(5, 6, 4, 0.5)};
  EXPECT_EQ(make_schedule("auto", request).ranks, make_schedule("auto", request).ranks);
}

Schedule bare(const Placement& placement, int microbatches, ActionLists ranks) {
  return {.kind = "test",
          .placement = placement,
          .microbatches = microbatches,
          .ranks = std::move(ranks)};
}

// ZB-V is made for equal times: with other times and some more memory another order is better.
TEST(OrderSearch, ImprovesWithinItsLimits) {
  const Costs costs = costs_of(5, 6, 4);
  Schedule start = schedule_of("zb-v", 4, 8);
  for (std::vector<Action>& list : start.ranks) {
    std::erase_if(list, [](const Action& action) { return !is_pass(action.kind); });
  }
  EXPECT_EQ(measures_of(start, costs).span, 252);
  for (const auto& [limit, span] : {std::pair{8.0, 252}, {10.0, 249}}) {
    Schedule improved = start;
    improve_order(improved, costs, limit);
    EXPECT_LE(measures_of(improved, costs).span, span);
    EXPECT_LE(most(peak_activations(improved, kKeptForWeightGradient)), limit);
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_TRUE(is_in_order(improved.ranks[r], 2));
      EXPECT_TRUE(std::is_permutation(improved.ranks[r].begin(), improved.ranks[r].end(),
                                      start.ranks[r].begin(), start.ranks[r].end()));
    }
  }
}

TEST(OrderCost, OfAList) {
  const Action f0 = pass(ActionKind::kForward, 0, 0);
  const Action f1 = pass(ActionKind::kForward, 0, 1);
  const Action b0 = pass(ActionKind::kBackwardInput, 0, 0);
  const Action w0 = pass(ActionKind::kBackwardWeight, 0, 0);
  const Action both1 = pass(ActionKind::kBackward, 0, 1);
  EXPECT_EQ(peak_activations({f0, b0, f1, w0, both1}, kKeptForWeightGradient), 1.5);
  EXPECT_EQ(peak_activations({f0, b0, w0, f1, both1}, kKeptForWeightGradient), 1.0);
  EXPECT_EQ(peak_activations({f0, f1, both1}, kKeptForWeightGradient), 2.0);
  EXPECT_TRUE(is_in_order({f0, b0, f1, w0, both1}, 1));
  EXPECT_FALSE(is_in_order({f1, f0}, 1));
  EXPECT_FALSE(is_in_order({f0, f1, b0, both1}, 1));
  EXPECT_FALSE(is_in_order({b0, f0}, 1));
  EXPECT_FALSE(is_in_order({f0, w0, b0}, 1));
  EXPECT_TRUE(is_in_order({f0, f1, b0, w0, both1}, 1));

  const Schedule stuck = bare(Placement::contiguous(2), 2,
                              {{f0, pass(ActionKind::kBackward, 0, 0), f1, both1},
                               {f0, f1, pass(ActionKind::kBackward, 0, 0), both1}});
  EXPECT_EQ(cost_of(stuck, {}), std::nullopt);
  const Schedule h2 = schedule_of("zb-h2", 4, 8);
  EXPECT_EQ(cost_of(h2, {})->span, 24);
  EXPECT_EQ(cost_of(h2, {})->makespan, 27);
}

}  // namespace
}  // namespace phalanx
