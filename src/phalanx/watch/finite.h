#pragma once
// Whether all of a tensor's numbers are finite.

#include "phalanx/ops/backend.h"

namespace phalanx {

// Of a contiguous tensor, read in pieces; whole numbers and what is empty or absent are. With
// `minus_infinity` that is one of its numbers.
bool is_finite(Context& context, const Tensor& tensor, bool minus_infinity = false);

}  // namespace phalanx
