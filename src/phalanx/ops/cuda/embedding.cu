#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/embedding-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(EmbeddingForwardKernel<float, float>)
PHALANX_KERNEL(EmbeddingForwardKernel<bf16, bf16>)
PHALANX_KERNEL(EmbeddingForwardKernel<bf16, float>)
PHALANX_KERNEL(EmbeddingForwardKernel<fp16, fp16>)
PHALANX_KERNEL(EmbeddingForwardKernel<fp16, float>)
PHALANX_KERNEL(AddPositionsKernel<float, float>)
PHALANX_KERNEL(AddPositionsKernel<bf16, bf16>)
PHALANX_KERNEL(AddPositionsKernel<bf16, float>)
PHALANX_KERNEL(AddPositionsKernel<fp16, fp16>)
PHALANX_KERNEL(AddPositionsKernel<fp16, float>)

PHALANX_KERNEL(SortBlockKernel)
PHALANX_KERNEL(MergeRunsKernel)
PHALANX_KERNEL(RareIdsKernel<float>)
PHALANX_KERNEL(FrequentIdsKernel<float>)
PHALANX_KERNEL(RareIdsKernel<bf16>)
PHALANX_KERNEL(FrequentIdsKernel<bf16>)
PHALANX_KERNEL(RareIdsKernel<fp16>)
PHALANX_KERNEL(FrequentIdsKernel<fp16>)

PHALANX_KERNEL(MarkNewIdsKernel)
PHALANX_KERNEL(AssignSlotsKernel)
PHALANX_KERNEL(JoinSlotsKernel)
PHALANX_KERNEL(FreeSlotsKernel)
