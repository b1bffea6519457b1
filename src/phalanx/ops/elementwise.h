#pragma once
// Fill, copy (with conversion and strides), addition, and multiplication by a number.

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

// y = factor * x, of one floating type, contiguous.
struct Scale {
  Tensor y;  // may be x
  Tensor x;
  double factor = 1.0;
};

OpCost cost(const Fill& op);
OpCost cost(const Copy& op);
OpCost cost(const Accumulate& op);
OpCost cost(const Scale& op);

void fill(Context& context, const Fill& op);
void copy(Context& context, const Copy& op);
void accumulate(Context& context, const Accumulate& op);
void scale(Context& context, const Scale& op);

}  // namespace phalanx::ops
