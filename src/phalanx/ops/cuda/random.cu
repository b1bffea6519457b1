#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/random-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(NormalKernel<float>)
PHALANX_KERNEL(NormalKernel<bf16>)
PHALANX_KERNEL(NormalKernel<fp16>)
PHALANX_KERNEL(UniformKernel<float>)
PHALANX_KERNEL(UniformKernel<bf16>)
PHALANX_KERNEL(UniformKernel<fp16>)
