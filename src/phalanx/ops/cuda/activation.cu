#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/activation-inl.h"

using namespace phalanx::cuda;

#define PHALANX_ACTIVATION_KERNELS(T)              \
  PHALANX_KERNEL(BiasActivationForwardKernel<T>)   \
  PHALANX_KERNEL(BiasActivationBackwardKernel<T>)  \
  PHALANX_KERNEL(GatedActivationForwardKernel<T>)  \
  PHALANX_KERNEL(GatedActivationBackwardKernel<T>) \
  PHALANX_KERNEL(TanhForwardKernel<T>)             \
  PHALANX_KERNEL(TanhBackwardKernel<T>)

PHALANX_ACTIVATION_KERNELS(float)
PHALANX_ACTIVATION_KERNELS(bf16)
PHALANX_ACTIVATION_KERNELS(fp16)
