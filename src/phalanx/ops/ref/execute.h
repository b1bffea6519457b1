#pragma once
// The reference's implementation of every op, one source file per family with the family's name:
// plain double precision on any floating-point type, slow and simple. Tests compare other backends
// with it, and differentiate whole layers numerically on f64 tensors. Needs no scratch memory.

#include "phalanx/ops/backend.h"

namespace phalanx::ref {

struct RefDevice {};

template <typename Op>
std::int64_t workspace_bytes_of(const RefDevice& /*device*/, const Op& /*op*/) {
  return 0;
}

#define PHALANX_EXECUTE(Op) \
  void execute(RefDevice& device, const ops::Op& op, const Tensor& scratch);
PHALANX_OPS(PHALANX_EXECUTE)
#undef PHALANX_EXECUTE

}  // namespace phalanx::ref
