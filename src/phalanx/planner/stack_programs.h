#pragma once
// The programs of a step as other software would do it, from Phalanx's: ops and messages that are
// added, left out, moved.

#include "phalanx/planner/software_stack.h"
#include "phalanx/rehearsal/rank_trace.h"

namespace phalanx {

// What the stack's facts say of ops, of bytes, and of where messages begin and are waited for.
RankTrace as_done_by(const SoftwareStack& stack, const RankTrace& trace);

}  // namespace phalanx
