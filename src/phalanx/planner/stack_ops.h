#pragma once
// The ops of an action as other software does them: more or fewer bytes, ops that Phalanx's
// products do with them, losses of all rows at once.

#include <string_view>

#include "phalanx/clock/program_clock.h"
#include "phalanx/pipeline/action.h"
#include "phalanx/planner/software_stack.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// What an event is: the op of this name; a product of this name; the forward pass of a norm; the
// begin of a message of this part, or null.
const OpCost* op_of(const TraceEvent& event);
bool is_product(const TraceEvent& event, std::string_view name);
bool is_norm_forward(const TraceEvent& event);
const MessageBegun* message_of(const TraceEvent& event, TimePart part);

// The events of an action with the stack's ops, and gradients of its type in messages. Work numbers
// and waits stay as they are.
Trace with_ops_of(const SoftwareStack& stack, ActionKind kind, const Trace& events);

}  // namespace phalanx
