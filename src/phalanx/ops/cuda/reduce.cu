#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/reduce-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(BlockTermsKernel<false>)
PHALANX_KERNEL(BlockTermsKernel<true>)
PHALANX_KERNEL(TotalKernel)
PHALANX_KERNEL(TotalSegmentsKernel)
PHALANX_KERNEL(GradientFactorKernel)
