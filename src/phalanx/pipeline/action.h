#pragma once
// A training step is data: for every rank an ordered list of actions. Schedules generate it, the
// verifier checks it, the saved-memory plan is packed over it, and one executor runs it that knows
// no schedule by name.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

enum class ActionKind : std::uint8_t {
  kForward,          // F: of (chunk, microbatch)
  kBackward,         // B: input and weight gradients fused, unit by unit
  kBackwardInput,    // b: input gradients only
  kBackwardWeight,   // w: weight gradients only
  kReduceGradients,  // of a chunk: join tied accumulators, later reduce over data parallelism
  kOptimizerStep,
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;
  int microbatch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

// One rank's list for one step.
struct Program {
  std::vector<Action> actions;
  int chunks = 1;
  int microbatches = 1;
  bool forward_only = false;
};

// "F3.0": forward of microbatch 3 on chunk 0; "reduce.0", "step".
std::string to_string(const Action& action);

}  // namespace phalanx
