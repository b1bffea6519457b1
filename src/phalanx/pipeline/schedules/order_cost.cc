#include "phalanx/pipeline/schedules/order_cost.h"

#include <algorithm>
#include <limits>

#include "phalanx/pipeline/replay.h"

namespace phalanx {
namespace {

bool is_clearly_less(double a, double b) {
  constexpr double kRounding = 1e-12;
  return a < b * (1.0 - kRounding);
}

}  // namespace

bool is_less(const OrderCost& a, const OrderCost& b) {
  if (is_clearly_less(a.span, b.span)) return true;
  return !is_clearly_less(b.span, a.span) && is_clearly_less(a.makespan, b.makespan);
}

std::optional<OrderCost> cost_of(const Schedule& schedule, const Costs& costs) {
  struct Ends {
    double first = std::numeric_limits<double>::infinity();
    double last = 0.0;
  };
  std::vector<Ends> ends(schedule.ranks.size());
  Replay replay(schedule, costs);
  const bool finished =
      replay.run([&](std::size_t rank, std::size_t /*index*/, double begin, double end) {
        ends[rank].first = std::min(ends[rank].first, begin);
        ends[rank].last = std::max(ends[rank].last, end);
      });
  if (!finished) return std::nullopt;
  OrderCost cost;
  for (const Ends& rank : ends) {
    cost.span = std::max(cost.span, rank.last - rank.first);
    cost.makespan = std::max(cost.makespan, rank.last);
  }
  return cost;
}

bool is_in_order(const std::vector<Action>& list, int chunks) {
  struct Next {
    int forward = 0;
    int input = 0;
    int weight = 0;
  };
  std::vector<Next> all(static_cast<std::size_t>(chunks));
  for (const Action& action : list) {
    Next& next = all[static_cast<std::size_t>(action.chunk)];
    if (action.kind == ActionKind::kForward && action.microbatch != next.forward++) return false;
    if (makes_input_gradient(action.kind) && action.microbatch != next.input++) return false;
    if (adds_weight_gradient(action.kind) && action.microbatch != next.weight++) return false;
    if (next.input > next.forward || next.weight > next.input) return false;
  }
  return true;
}

}  // namespace phalanx
