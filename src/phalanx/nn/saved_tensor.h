#pragma once
// One tensor in a microbatch's memory on a chunk, and how long it is needed.

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
  // A second forward pass, before the backward pass of the last unit of those that are recomputed
  // together. Of the hooks only before() is called.
  kRecompute,
};

}  // namespace nn

// A point in a microbatch's life on this chunk. Unit numbers -1 and num_units stand for exchanges
// with other stages: the input arrives at forward -1, the output is sent at forward num_units; the
// output's gradient arrives at backward num_units, the input's is sent at backward -1.
struct PassPoint {
  nn::PassKind pass = nn::PassKind::kForward;
  int unit = 0;
};

// One tensor of a microbatch, and the first and the last point at which it is needed.
struct SavedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  PassPoint born;
  PassPoint last;
  // For a tensor from a forward to a backward pass: the last unit whose forward pass uses it, and
  // the next unit that uses it, in its backward pass or the recomputation directly before.
  int forward_last = 0;
  int backward_first = 0;
  // The tensor whose memory this one uses, or -1. A carried stream is listed once for every unit
  // that reads it.
  int same_as = -1;
  bool is_lent = false;  // weights or gradients that are lent to passes
  // 0 if the memory belongs to another tensor.
  std::int64_t bytes() const { return same_as < 0 ? shape.count() * size_of(dtype) : 0; }
};

}  // namespace phalanx
