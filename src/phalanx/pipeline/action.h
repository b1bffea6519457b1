#pragma once
// A training step is data: for every rank an ordered list of actions. Schedules generate the lists,
// the verifier checks them, the simulator times them, a lowering adds the messages, saved memory is
// packed over them, and one executor runs them that knows no schedule by name.

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
  // What passes hand to each other, of (chunk, microbatch, payload).
  kSend,       // to a peer: it has begun
  kAwaitSend,  // it is over, its tensor is free again
  kReceive,    // from a peer: it has begun; the pass that reads it waits for it
  kHandOver,   // to the chunk `peer` of the same rank
  // What a rank does with gradients and weights.
  kReduceGradients,   // of a chunk, over data parallelism: it has begun
  kOptimizerStep,     // of the whole rank; its reductions are over before
  kGatherParameters,  // the parts that other ranks updated
};

// What one stage hands to the next.
enum class Payload : std::uint8_t { kActivation, kGradient };

struct Action {
  ActionKind kind = ActionKind::kForward;
  // Messages: what they carry.
  Payload payload = Payload::kActivation;
  // A forward pass that is computed together with the backward pass behind it, kernel by kernel.
  bool paired = false;
  // The rank's chunk: that of the pass; of the pass that sends, or that reads what is received.
  int chunk = 0;
  // Counted from 0 within a direction of the pipeline (placement.h).
  int microbatch = 0;
  // Messages: the other rank of the pipeline; of a hand-over the chunk that reads.
  int peer = 0;
  // Messages: the stage whose pass made the payload.
  int source_stage = 0;
  // Passes: the weight version they read. A step of the optimizer: the version that it makes, which
  // is the number of steps before and including it.
  int version = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

constexpr bool is_pass(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }
constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::kSend && kind <= ActionKind::kHandOver;
}
// Whether the pass makes the input gradient, or adds the weight gradient.
constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
constexpr bool adds_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

// A rank's list with its messages, for one step (or for the several steps that an asynchronous
// schedule takes between two times it is empty).
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
