#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/grouped_linear-inl.h"

using namespace phalanx::cuda;

#define PHALANX_GROUPED_KERNELS(T)               \
  PHALANX_KERNEL(GroupedProductKernel<T, false>) \
  PHALANX_KERNEL(GroupedProductKernel<T, true>)  \
  PHALANX_KERNEL(GroupedWeightGradientKernel<T>) \
  PHALANX_KERNEL(GroupedBiasGradientKernel<T>)   \
  PHALANX_KERNEL(GroupedBiasDotsKernel<T>)

PHALANX_GROUPED_KERNELS(float)
PHALANX_GROUPED_KERNELS(bf16)
PHALANX_GROUPED_KERNELS(fp16)
PHALANX_KERNEL(RowTilesKernel)
