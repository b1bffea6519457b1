#include "phalanx/pipeline/schedules/order_search.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/order_cost.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {
namespace {

constexpr int kFarthest = 5;                    // places that a pass moves at once
constexpr int kIdleSweeps = 2;                  // in a row without a gain end the search
constexpr std::size_t kMostPasses = 8'000'000;  // that are simulated

class OrderSearch {
 public:
  OrderSearch(Schedule& schedule, const Costs& costs, double memory_limit)
      : schedule_(schedule), costs_(costs), memory_limit_(memory_limit) {
    const std::optional<OrderCost> cost = cost_of(schedule, costs);
    PHALANX_CHECK(cost.has_value(), "ranks wait for each other in the order to improve");
    cost_ = *cost;
    std::size_t passes = 0;
    for (const std::vector<Action>& list : schedule.ranks) passes += list.size();
    trials_left_ = kMostPasses / passes;
  }

  void run() {
    for (int idle = 0; idle < kIdleSweeps && trials_left_ > 0; ++idle) {
      const OrderCost before = cost_;
      for (std::vector<Action>& list : schedule_.ranks) sweep(list);
      if (is_less(cost_, before)) idle = -1;
    }
  }

 private:
  void sweep(std::vector<Action>& list) {
    const auto size = static_cast<int>(list.size());
    for (int from = 0; from < size; ++from) {
      for (int distance = 1; distance <= kFarthest; ++distance) {
        if (from + distance < size) try_move(list, from, from + distance);
        if (from - distance >= 0) try_move(list, from, from - distance);
      }
    }
  }

  void try_move(std::vector<Action>& list, int from, int to) {
    if (trials_left_ == 0) return;
    move(list, from, to);
    if (!is_allowed(list) || !is_no_slower()) move(list, to, from);
  }

  static void move(std::vector<Action>& list, int from, int to) {
    const auto at = [&](int place) { return list.begin() + place; };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  bool is_allowed(const std::vector<Action>& list) const {
    return is_in_order(list, schedule_.placement.chunks()) &&
           peak_activations(list, kKeptForWeightGradient) <= memory_limit_;
  }

  bool is_no_slower() {
    --trials_left_;
    const std::optional<OrderCost> cost = cost_of(schedule_, costs_);
    if (!cost || is_less(cost_, *cost)) return false;
    cost_ = *cost;
    return true;
  }

  Schedule& schedule_;
  const Costs& costs_;
  const double memory_limit_;
  OrderCost cost_;
  std::size_t trials_left_ = 0;
};

}  // namespace

void improve_order(Schedule& schedule, const Costs& costs, double memory_limit) {
  OrderSearch(schedule, costs, memory_limit).run();
}

}  // namespace phalanx
