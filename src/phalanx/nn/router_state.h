#pragma once
// What a router counts in the training passes of a step, and the expert bias that the end of the
// step updates from it. Counts are integers, so they are the same on any layout.

#include <cstdint>
#include <string>

#include "phalanx/mesh/param_spec.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {
class Communicator;
}

namespace phalanx::nn {

// The number of a router in its table, in the order of layers.
using RouterId = int;

struct RouterState {
  std::string name;          // of its layer: "decoder.layers.3"
  std::int64_t experts = 0;  // E
  std::int64_t chosen = 0;   // of a token
  ParamId bias = -1;         // [E]; -1: there is none
  double bias_rate = 0.0;    // bias += rate * sign(mean count - count) after a step
};

// The counts of a microbatch's pass. Nothing is counted where `given` is empty: in an evaluation,
// in generation.
struct RouterCounts {
  // By RouterId, [E], i32: how many of this rank's tokens of the step an expert was given. A pair
  // that was dropped does not count.
  Tensors given = {};
  // The same of experts with the best balance scores (ops/balance.h), whatever the router chose;
  // empty without the loss that reads it.
  Tensors best = {};
  // The ranks that have other rows of the step, along the context and data axes; null: none.
  Communicator* rows = nullptr;
  std::int64_t microbatches = 1;  // of the step, up to this one
};

}  // namespace phalanx::nn
