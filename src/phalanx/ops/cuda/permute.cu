#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/permute-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(PairOrderKernel)
PHALANX_KERNEL(GatherElementsKernel)
PHALANX_KERNEL(PermuteRowsKernel<float>)
PHALANX_KERNEL(PermuteRowsKernel<bf16>)
PHALANX_KERNEL(PermuteRowsKernel<fp16>)
PHALANX_KERNEL(UnpermuteRowsKernel<float, float>)
PHALANX_KERNEL(UnpermuteRowsKernel<bf16, bf16>)
PHALANX_KERNEL(UnpermuteRowsKernel<bf16, float>)
PHALANX_KERNEL(UnpermuteRowsKernel<fp16, fp16>)
PHALANX_KERNEL(UnpermuteRowsKernel<fp16, float>)
PHALANX_KERNEL(PairDotsKernel<float>)
PHALANX_KERNEL(PairDotsKernel<bf16>)
PHALANX_KERNEL(PairDotsKernel<fp16>)
