#pragma once
// The types that the CPU's kernels accept, checked before a parallel region because no exception
// may leave it.

#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"

namespace phalanx::cpu {

inline void expect_kernel_type(DType dtype) {
  PHALANX_CHECK(is_floating(dtype) && dtype != DType::kF64,
                "the CPU kernels compute on f32, bf16 and f16, not on {}", name_of(dtype));
}

}  // namespace phalanx::cpu
