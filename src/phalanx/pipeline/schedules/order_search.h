#pragma once
// Local search in the order of passes: one pass at a time goes a few places up or down its rank's
// list, and stays there where that makes the schedule no slower.

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

// Of passes alone, in order (order_cost.h), which they stay, within `memory_limit` too. The work is
// bounded whatever the size; the same schedule becomes the same one.
void improve_order(Schedule& schedule, const Costs& costs, double memory_limit);

}  // namespace phalanx
