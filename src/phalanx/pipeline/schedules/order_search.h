#pragma once
// Local search in the order of passes: it moves one pass at a time a few places up or down its
// rank's list, and keeps the move if the schedule is no slower.

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// The schedule must have only passes, be in order (order_cost.h) and within `memory_limit`; it
// stays so. The work is bounded for any size, and the result is deterministic.
void improve_order(Schedule& schedule, const Costs& costs, double memory_limit);

}  // namespace phalanx
