#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/norm-inl.h"

using namespace phalanx::cuda;

#define PHALANX_NORM_KERNELS(T, Stream)                    \
  PHALANX_KERNEL(NormForwardKernel<T, Stream, 32, true>)   \
  PHALANX_KERNEL(NormForwardKernel<T, Stream, 256, true>)  \
  PHALANX_KERNEL(NormForwardKernel<T, Stream, 256, false>) \
  PHALANX_KERNEL(NormApplyKernel<T, Stream>)               \
  PHALANX_KERNEL(NormBackwardKernel<T, Stream, 32>)        \
  PHALANX_KERNEL(NormBackwardKernel<T, Stream, 256>)

PHALANX_NORM_KERNELS(float, float)
PHALANX_NORM_KERNELS(bf16, bf16)
PHALANX_NORM_KERNELS(bf16, float)
PHALANX_NORM_KERNELS(fp16, fp16)
PHALANX_NORM_KERNELS(fp16, float)
