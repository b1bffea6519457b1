#pragma once
// Weights and gradients that are whole only while passes need them. Who has their parts lends them
// to the passes, in tensors that are planned with what a microbatch saves.

#include <span>
#include <vector>

#include "phalanx/nn/saved_tensor.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// How the passes of a program over a chunk follow each other.
struct PassOrder {
  bool forward_only = false;
  // Every backward pass directly follows the forward pass of its microbatch.
  bool backward_follows = false;

  friend bool operator==(const PassOrder&, const PassOrder&) = default;
};

// Keeps the tables of a chunk's weights or gradients right from unit to unit: its before() is
// called before they are read, its after() when they no longer are.
class PassStates : public UnitHooks {
 public:
  // What it needs of a microbatch's memory on the chunk, in addition to what the chunk saves.
  virtual std::vector<SavedTensor> lent_tensors(int chunk, const PassOrder& order) const = 0;
  // Begins a pass over the chunk, forward or one of backward. `lent` is the memory of
  // lent_tensors() for its microbatch, until the next pass begins.
  virtual void enter(int chunk, const PassOrder& order, bool forward,
                     std::span<const Tensor> lent) = 0;
};

}  // namespace phalanx::nn
