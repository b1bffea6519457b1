#pragma once
// A block of the memory that a microbatch has on a chunk, and how long it is needed there.

#include <cstdint>
#include <string>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

namespace nn {

enum class PassKind : std::uint8_t {
  kForward,
  kBackwardInput,
  kBackwardWeight,
  // Once more forward, before the backward pass of the last of the units that are recomputed
  // together. Only before() is told.
  kRecompute,
};

}  // namespace nn

// A point in a microbatch's life on this chunk. Outside the units are its ends: at forward -1 it
// has its input, at forward num_units its output is handed on; at backward num_units it has the
// gradient of its output, at backward -1 that of its input is handed on.
struct PassPoint {
  nn::PassKind pass = nn::PassKind::kForward;
  int unit = 0;
};

// One tensor of a microbatch and between which two points it is needed, both included.
struct SavedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  PassPoint born;
  PassPoint last;
  // Of what a forward pass writes for a backward pass: the last unit whose forward pass touches it,
  // and the unit before whose backward pass, or the recomputation in front of that, it is touched
  // again.
  int forward_last = 0;
  int backward_first = 0;
  // The number of the block whose memory this is: a carried stream's, which has a place in the list
  // for every unit that reads it. -1: it has memory of its own.
  int same_as = -1;
  bool is_lent = false;  // weights or gradients that passes are lent, not saved
  // Of its own.
  std::int64_t bytes() const { return same_as < 0 ? shape.count() * size_of(dtype) : 0; }
};

}  // namespace phalanx
