#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/relative_bias-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(BiasLineKernel<float>)
PHALANX_KERNEL(BiasLineKernel<bf16>)
PHALANX_KERNEL(BiasLineKernel<fp16>)
PHALANX_KERNEL(BiasWindowsKernel)
PHALANX_KERNEL(BiasDiagonalsKernel)
PHALANX_KERNEL(BucketSumsKernel)
