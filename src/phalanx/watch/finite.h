#pragma once
// Whether all of a tensor's numbers are finite.

#include "phalanx/ops/backend.h"

namespace phalanx {

// `tensor` is contiguous and read in pieces. Integers and empty or absent tensors are finite. With
// `minus_infinity` that value counts as finite.
bool is_finite(Context& context, const Tensor& tensor, bool minus_infinity = false);

}  // namespace phalanx
