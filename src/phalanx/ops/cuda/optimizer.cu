#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/optimizer-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(AdamKernel<float>)
PHALANX_KERNEL(AdamKernel<bf16>)
PHALANX_KERNEL(AdamKernel<fp16>)
PHALANX_KERNEL(SgdKernel<float>)
PHALANX_KERNEL(SgdKernel<bf16>)
PHALANX_KERNEL(SgdKernel<fp16>)
