#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/grouped_linear_mma-inl.h"

using namespace phalanx::cuda;

#define PHALANX_GROUPED_KERNELS(T)                       \
  PHALANX_KERNEL(GroupedMmaProductKernel<T, 64, false>)  \
  PHALANX_KERNEL(GroupedMmaProductKernel<T, 64, true>)   \
  PHALANX_KERNEL(GroupedMmaProductKernel<T, 128, false>) \
  PHALANX_KERNEL(GroupedMmaProductKernel<T, 128, true>)  \
  PHALANX_KERNEL(GroupedMmaWeightGradientKernel<T>)

PHALANX_GROUPED_KERNELS(bf16)
PHALANX_GROUPED_KERNELS(fp16)
