#include "phalanx/pipeline/action.h"

#include <fmt/core.h>

namespace phalanx {
namespace {

std::string message(const Action& action, std::string_view verb, std::string_view direction) {
  return fmt::format("{} {} {}.{} {} {}", verb, name_of(action.payload), action.microbatch,
                     action.chunk, direction, action.peer);
}

}  // namespace

std::string_view name_of(Payload payload) {
  return payload == Payload::kActivation ? "act" : "grad";
}

std::string to_string(const Action& action) {
  const auto of = [&](char letter) {
    return fmt::format("{}{}.{}", letter, action.microbatch, action.chunk);
  };
  switch (action.kind) {
    case ActionKind::kForward:
      return of('F');
    case ActionKind::kBackward:
      return of('B');
    case ActionKind::kBackwardInput:
      return of('b');
    case ActionKind::kBackwardWeight:
      return of('w');
    case ActionKind::kSend:
      return message(action, "send", "to");
    case ActionKind::kAwaitSend:
      return message(action, "sent", "to");
    case ActionKind::kReceive:
      return message(action, "receive", "from");
    case ActionKind::kHandOver:
      return message(action, "hand", "to chunk");
    case ActionKind::kReduceGradients:
      return fmt::format("reduce.{}", action.chunk);
    case ActionKind::kOptimizerStep:
      return "step";
    case ActionKind::kGatherParameters:
      return "gather";
  }
  return "?";
}

}  // namespace phalanx
