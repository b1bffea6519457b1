#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/cross_entropy-inl.h"
#include "phalanx/ops/cuda/loss-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(CrossEntropyKernel<float, float, 32>)
PHALANX_KERNEL(CrossEntropyKernel<float, float, 512>)
PHALANX_KERNEL(CrossEntropyKernel<bf16, bf16, 32>)
PHALANX_KERNEL(CrossEntropyKernel<bf16, bf16, 512>)
PHALANX_KERNEL(CrossEntropyKernel<float, bf16, 32>)
PHALANX_KERNEL(CrossEntropyKernel<float, bf16, 512>)
PHALANX_KERNEL(CrossEntropyKernel<fp16, fp16, 32>)
PHALANX_KERNEL(CrossEntropyKernel<fp16, fp16, 512>)
PHALANX_KERNEL(CrossEntropyKernel<float, fp16, 32>)
PHALANX_KERNEL(CrossEntropyKernel<float, fp16, 512>)

PHALANX_KERNEL(StatisticsKernel<float, 32>)
PHALANX_KERNEL(StatisticsKernel<float, 512>)
PHALANX_KERNEL(StatisticsKernel<bf16, 32>)
PHALANX_KERNEL(StatisticsKernel<bf16, 512>)
PHALANX_KERNEL(StatisticsKernel<fp16, 32>)
PHALANX_KERNEL(StatisticsKernel<fp16, 512>)

PHALANX_KERNEL(PartCrossEntropyKernel<float, float>)
PHALANX_KERNEL(PartCrossEntropyKernel<bf16, bf16>)
PHALANX_KERNEL(PartCrossEntropyKernel<float, bf16>)
PHALANX_KERNEL(PartCrossEntropyKernel<fp16, fp16>)
PHALANX_KERNEL(PartCrossEntropyKernel<float, fp16>)

PHALANX_KERNEL(LabelMaskKernel)
PHALANX_KERNEL(LossSeedKernel)
PHALANX_KERNEL(LossAccumulateKernel)
