// Searches the fastest order for given costs and a memory limit: the best of a portfolio, whose
// first few are improved by a local search. Faster means a shorter span, then a shorter makespan.
// With one chunk on every rank the portfolio has the family from ZB-H1 to ZB-H2 and gap filling
// under many rules; with two, the schedules of a V; with more, those of a loop. All orders add
// weight gradients in the order of microbatches.

#include <algorithm>
#include <limits>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/gap_filling.h"
#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/order_cost.h"
#include "phalanx/pipeline/schedules/order_search.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {
namespace {

constexpr std::size_t kSearched = 4;  // of the best orders

struct Candidate {
  Schedule schedule;
  OrderCost cost;
};

class Portfolio {
 public:
  Portfolio(const ScheduleRequest& request, const Placement& placement)
      : request_(request),
        placement_(placement),
        memory_limit_(request.memory_limit.value_or(std::numeric_limits<double>::infinity())) {}

  double memory_limit() const { return memory_limit_; }

  void add(ActionLists lists) {
    double peak = 0.0;
    for (const std::vector<Action>& list : lists) {
      PHALANX_CHECK(is_in_order(list, placement_.chunks()),
                    "auto is offered microbatches out of order");
      peak = std::max(peak, peak_activations(list, kKeptForWeightGradient));
    }
    least_peak_ = std::min(least_peak_, peak);
    if (peak > memory_limit_) return;
    Schedule schedule{.kind = "auto",
                      .placement = placement_,
                      .microbatches = request_.microbatches,
                      .ranks = std::move(lists)};
    const std::optional<OrderCost> cost = cost_of(schedule, request_.costs);
    if (cost) candidates_.push_back({std::move(schedule), *cost});
  }

  // Fastest first, none twice. ConfigError if the memory limit is too small for all.
  std::vector<Candidate> best() {
    if (candidates_.empty()) {
      throw ConfigError(
          "auto: no order fits into a memory of {} activations on every rank; the least that one "
          "needs is {}",
          memory_limit_, least_peak_);
    }
    const auto key = [](const Candidate& one) {
      return std::tie(one.cost.span, one.cost.makespan);
    };
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    std::vector<Candidate> best;
    for (Candidate& candidate : candidates_) {
      const bool known = std::any_of(best.begin(), best.end(), [&](const Candidate& other) {
        return other.schedule.ranks == candidate.schedule.ranks;
      });
      if (!known) best.push_back(std::move(candidate));
      if (best.size() == kSearched) break;
    }
    return best;
  }

 private:
  const ScheduleRequest& request_;
  const Placement& placement_;
  const double memory_limit_;
  double least_peak_ = std::numeric_limits<double>::infinity();
  std::vector<Candidate> candidates_;
};

// The order with the least memory: each microbatch goes forward and backward before the next.
ActionLists one_at_a_time(const ScheduleRequest& request, const Placement& placement) {
  std::vector<Action> list;
  for (int i = 0; i < request.microbatches; ++i) {
    for (int c = 0; c < placement.chunks(); ++c) list.push_back(pass(ActionKind::kForward, c, i));
    for (int c = placement.chunks() - 1; c >= 0; --c) {
      list.push_back(pass(ActionKind::kBackward, c, i));
    }
  }
  return {static_cast<std::size_t>(request.ranks), list};
}

void add_gap_filling(Portfolio& portfolio, const ScheduleRequest& request) {
  for (const double warmup_delay : {0.0, 0.5, 1.0}) {
    for (const double least_gap : {1.0, 0.5, 0.01}) {
      for (const bool levels_idle_time : {true, false}) {
        for (const bool backward_first : {false, true}) {
          const GapFillingRule rule{.warmup_delay = warmup_delay,
                                    .least_gap = least_gap,
                                    .levels_idle_time = levels_idle_time,
                                    .backward_first = backward_first};
          auto lists = gap_filling_passes(request, portfolio.memory_limit(), rule);
          if (lists) portfolio.add(std::move(*lists));
        }
      }
    }
  }
}

void add_schedules_of_shape(Portfolio& portfolio, const ScheduleRequest& request,
                            const Placement& placement) {
  switch (placement.shape()) {
    case Placement::Shape::kContiguous:
      portfolio.add(one_forward_one_backward_passes(request, placement));
      for (int ahead = 0; ahead < request.ranks; ++ahead) {
        portfolio.add(zero_bubble_passes(request, ahead));
      }
      add_gap_filling(portfolio, request);
      return;
    case Placement::Shape::kWave:
      portfolio.add(zero_bubble_v_passes(request, placement));
      portfolio.add(hanayo_passes(request, placement));
      return;
    case Placement::Shape::kLooped:
      portfolio.add(interleaved_passes(request, placement));
      portfolio.add(interleaved_zero_bubble_passes(request, placement));
      portfolio.add(looped_bfs_passes(request, placement));
      return;
    case Placement::Shape::kBidirectional:
      return;
  }
}

void check_costs(const ScheduleRequest& request, const Placement& placement) {
  const std::size_t stages = request.costs.stages.size();
  if (stages == 1 || stages == static_cast<std::size_t>(placement.stages())) return;
  throw ConfigError(
      "auto: costs of {} stages for a pipeline of {}: give one for each, or one for all", stages,
      placement.stages());
}

}  // namespace

ActionLists auto_passes(const ScheduleRequest& request, const Placement& placement) {
  check_costs(request, placement);
  Portfolio portfolio(request, placement);
  portfolio.add(one_at_a_time(request, placement));
  add_schedules_of_shape(portfolio, request, placement);
  std::vector<Candidate> candidates = portfolio.best();
  for (Candidate& candidate : candidates) {
    improve_order(candidate.schedule, request.costs, portfolio.memory_limit());
    candidate.cost = cost_of(candidate.schedule, request.costs).value();
  }
  return std::min_element(
             candidates.begin(), candidates.end(),
             [](const Candidate& a, const Candidate& b) { return is_less(a.cost, b.cost); })
      ->schedule.ranks;
}

}  // namespace phalanx
