#include "phalanx/pipeline/action.h"

#include <fmt/core.h>

namespace phalanx {

std::string to_string(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return fmt::format("F{}.{}", action.microbatch, action.chunk);
    case ActionKind::kBackward:
      return fmt::format("B{}.{}", action.microbatch, action.chunk);
    case ActionKind::kBackwardInput:
      return fmt::format("b{}.{}", action.microbatch, action.chunk);
    case ActionKind::kBackwardWeight:
      return fmt::format("w{}.{}", action.microbatch, action.chunk);
    case ActionKind::kReduceGradients:
      return fmt::format("reduce.{}", action.chunk);
    case ActionKind::kOptimizerStep:
      return "step";
  }
  return {};
}

}  // namespace phalanx
