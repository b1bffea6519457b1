#pragma once
// Weights and gradients that are whole only while passes need them. Who has their parts lends them
// to the passes, in blocks that are planned with what a microbatch saves.

#include <span>
#include <vector>

#include "phalanx/nn/saved_tensor.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// How the passes of a program over a chunk follow each other.
struct PassOrder {
  bool forward_only = false;
  // Every backward pass comes directly behind the forward pass of its microbatch.
  bool backward_follows = false;

  friend bool operator==(const PassOrder&, const PassOrder&) = default;
};

// Keeps the tables of a chunk's weights, or gradients, what they have to be unit by unit: its
// before() is called before anybody reads them, its after() when nobody does any more.
class PassStates : public UnitHooks {
 public:
  // What it needs of a microbatch's memory on the chunk, beside what the chunk saves.
  virtual std::vector<SavedTensor> blocks(int chunk, const PassOrder& order) const = 0;
  // The next pass over the chunk is a forward pass, or one of backward, and these are its
  // microbatch's blocks, until the next pass.
  virtual void enter(int chunk, const PassOrder& order, bool forward,
                     std::span<const Tensor> blocks) = 0;
};

}  // namespace phalanx::nn
