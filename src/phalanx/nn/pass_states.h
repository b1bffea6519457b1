#pragma once
// Weights and gradients that are whole only while passes need them. Their owner lends them to the
// passes, in tensors that are planned together with saved tensors.

#include <span>
#include <vector>

#include "phalanx/nn/saved_tensor.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// The order of passes over a chunk in a program.
struct PassOrder {
  bool forward_only = false;
  // Every backward pass directly follows the forward pass of its microbatch.
  bool backward_follows = false;

  friend bool operator==(const PassOrder&, const PassOrder&) = default;
};

// Lends a chunk's weights or gradients to passes, unit by unit: before() waits for the weights that
// a pass reads; after() frees weights or starts to sum gradients.
class PassStates : public UnitHooks {
 public:
  // The tensors of a microbatch on the chunk that it needs beside the chunk's saved tensors.
  virtual std::vector<SavedTensor> lent_tensors(int chunk, const PassOrder& order) const = 0;
  // Starts a forward pass or a backward pass over the chunk. `lent` has the memory of
  // lent_tensors() for this microbatch, valid until the next call.
  virtual void enter(int chunk, const PassOrder& order, bool forward, Tensors lent) = 0;
};

}  // namespace phalanx::nn
