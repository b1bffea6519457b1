#pragma once
// A training step is data: an ordered list of actions for every rank. Schedules generate the lists,
// the verifier checks them, the simulator times them, a lowering adds the messages, saved memory is
// packed for them, and one executor runs them, which knows no schedule by name.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

enum class ActionKind : std::uint8_t {
  // Passes of (chunk, microbatch).
  kForward,         // F
  kBackward,        // B: input and weight gradients fused, unit by unit
  kBackwardInput,   // b: input gradients only
  kBackwardWeight,  // w: weight gradients only
  // Messages of (chunk, microbatch, payload) between passes.
  kSend,       // begins a message to a peer
  kAwaitSend,  // waits until it is sent: its tensor is free again
  kReceive,    // begins to receive from a peer; the pass that reads the tensor waits for it
  kHandOver,   // copies to the chunk `peer` of the same rank
  // What a rank does with gradients and weights.
  kReduceGradients,   // of a chunk, over data parallelism: begins it
  kOptimizerStep,     // of the whole rank; waits for its reductions
  kGatherParameters,  // that other ranks updated
};

// What one stage hands to the next.
enum class Payload : std::uint8_t { kActivation, kGradient };

struct Action {
  ActionKind kind = ActionKind::kForward;
  // Messages: their content.
  Payload payload = Payload::kActivation;
  // A forward pass that is computed together with the next backward pass, kernel by kernel.
  bool paired = false;
  // The rank's chunk: of the pass; of a message, the one whose pass sends or reads the payload.
  int chunk = 0;
  // Counted from 0 within a direction of the pipeline (placement.h).
  int microbatch = 0;
  // Messages: the other rank of the pipeline; of a hand-over the chunk that reads.
  int peer = 0;
  // Messages: the stage whose pass made the payload.
  int source_stage = 0;
  // Passes: the weight version that they read. Optimizer steps: the version that they make, which
  // is the number of steps so far.
  int version = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

constexpr bool is_pass(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }
constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::kSend && kind <= ActionKind::kHandOver;
}
// Whether the pass computes the input gradient; whether it adds the weight gradient.
constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
constexpr bool adds_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

// A rank's list with its messages, for one step. Of an asynchronous schedule: for all steps until
// the pipeline is empty again.
struct Program {
  std::vector<Action> actions;
  int chunks = 1;
  int microbatches = 1;
  bool forward_only = false;
};

constexpr Action pass(ActionKind kind, int chunk, int microbatch, int version = 0) {
  return {.kind = kind, .chunk = chunk, .microbatch = microbatch, .version = version};
}

// "F3.0": forward of microbatch 3 on chunk 0; "reduce.0", "step", "gather"; "send act 3.0 to 1".
std::string to_string(const Action& action);
std::string_view name_of(Payload payload);  // "act", "grad"

}  // namespace phalanx
