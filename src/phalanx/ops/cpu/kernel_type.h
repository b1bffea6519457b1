#pragma once
// What the CPU's kernels compute on, asked before a parallel region, which no exception must leave.

#include "phalanx/tensor/tensor.h"

namespace phalanx::cpu {

inline void expect_kernel_type(const Tensor& tensor) {
  PHALANX_CHECK(is_floating(tensor.dtype) && tensor.dtype != DType::kF64,
                "the CPU kernels compute on f32, bf16 and f16, not on {}", name_of(tensor.dtype));
}

}  // namespace phalanx::cpu
