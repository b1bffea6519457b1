#pragma once
// One tensor of the memory that a microbatch has on a chunk, and how long it is needed there.

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
  // Forward again, before the backward pass of the last of the units that are recomputed together.
  // Of the hooks only before() is called for it.
  kRecompute,
};

}  // namespace nn

// A point in a microbatch's life on this chunk. The numbers -1 and num_units stand for what is
// exchanged with other stages: the input arrives at forward -1, the output is sent at forward
// num_units; the output's gradient arrives at backward num_units, the input's is sent at backward
// -1.
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
  // Of what a forward pass writes for a backward pass: the last unit whose forward pass uses it,
  // and the unit whose backward pass, or the recomputation right before that, is the next to use
  // it.
  int forward_last = 0;
  int backward_first = 0;
  // The number of the tensor whose memory this is: a carried stream stands in the list once for
  // every unit that reads it. -1: it has its own memory.
  int same_as = -1;
  bool is_lent = false;  // weights or gradients that passes are lent, not saved
  // 0 where the memory is another tensor's.
  std::int64_t bytes() const { return same_as < 0 ? shape.count() * size_of(dtype) : 0; }
};

}  // namespace phalanx
