#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/column_sums-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(ColumnPartsKernel<float, float, false>)
PHALANX_KERNEL(ColumnPartsKernel<bf16, bf16, false>)
PHALANX_KERNEL(ColumnPartsKernel<fp16, fp16, false>)
PHALANX_KERNEL(ColumnPartsKernel<float, float, true>)
PHALANX_KERNEL(ColumnPartsKernel<bf16, bf16, true>)
PHALANX_KERNEL(ColumnPartsKernel<bf16, float, true>)
PHALANX_KERNEL(ColumnPartsKernel<fp16, fp16, true>)
PHALANX_KERNEL(ColumnPartsKernel<fp16, float, true>)
PHALANX_KERNEL(JoinPartsKernel)
