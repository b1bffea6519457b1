#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/rotary-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(RotaryTableKernel)
PHALANX_KERNEL(RotateKernel<float, false>)
PHALANX_KERNEL(RotateKernel<float, true>)
PHALANX_KERNEL(RotateKernel<bf16, false>)
PHALANX_KERNEL(RotateKernel<bf16, true>)
PHALANX_KERNEL(RotateKernel<fp16, false>)
PHALANX_KERNEL(RotateKernel<fp16, true>)
