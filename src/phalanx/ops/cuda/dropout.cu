#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/dropout-inl.h"

using namespace phalanx::cuda;

#define PHALANX_DROPOUT_KERNELS(T, Stream)             \
  PHALANX_KERNEL(BiasDropoutResidualKernel<T, Stream>) \
  PHALANX_KERNEL(DropoutBackwardKernel<T, Stream>)

PHALANX_KERNEL(JitterKernel)
PHALANX_DROPOUT_KERNELS(float, float)
PHALANX_DROPOUT_KERNELS(bf16, bf16)
PHALANX_DROPOUT_KERNELS(bf16, float)
PHALANX_DROPOUT_KERNELS(fp16, fp16)
PHALANX_DROPOUT_KERNELS(fp16, float)
