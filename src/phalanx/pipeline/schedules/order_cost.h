#pragma once
// The cost by which "auto" compares orders of passes.

#include <optional>
#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// The share of an activation that lives until its weight gradient, where memory is limited.
inline constexpr double kKeptForWeightGradient = 0.5;

// The span counts first, then the makespan (simulator.h).
struct OrderCost {
  double span = 0.0;
  double makespan = 0.0;
};
// Whether `a` is less by more than the rounding of sums.
bool is_less(const OrderCost& a, const OrderCost& b);

// Nothing if ranks wait for each other.
std::optional<OrderCost> cost_of(const Schedule& schedule, const Costs& costs);

// Whether each chunk takes microbatches in order, forward and backward, and every pass comes after
// the passes of the same chunk and microbatch that it reads from.
bool is_in_order(const std::vector<Action>& list, int chunks);

}  // namespace phalanx
