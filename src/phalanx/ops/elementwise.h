#pragma once
// Fill, copy (with conversion and strides), and addition.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct Fill {
  Tensor x;  // any dtype, contiguous
  double value = 0.0;
};

// destination = source, rounded to nearest even where the type narrows. Any strides, the same
// shape.
struct Copy {
  Tensor destination;
  Tensor source;
};

// destination += source in the destination's type (contiguous, same shape).
struct Accumulate {
  Tensor destination;
  Tensor source;
};

OpCost cost(const Fill& op);
OpCost cost(const Copy& op);
OpCost cost(const Accumulate& op);

void fill(Context& context, const Fill& op);
void copy(Context& context, const Copy& op);
void accumulate(Context& context, const Accumulate& op);

}  // namespace phalanx::ops
