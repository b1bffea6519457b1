#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/attention-inl.h"
#include "phalanx/ops/cuda/attention_backward-inl.h"
#include "phalanx/ops/cuda/attention_merge-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(AttentionForwardKernel<float>)
PHALANX_KERNEL(AttentionForwardKernel<bf16>)
PHALANX_KERNEL(AttentionForwardKernel<fp16>)
PHALANX_KERNEL(AttentionDeltaKernel<float>)
PHALANX_KERNEL(AttentionDeltaKernel<bf16>)
PHALANX_KERNEL(AttentionDeltaKernel<fp16>)
PHALANX_KERNEL(AttentionQueryGradientKernel<float, false>)
PHALANX_KERNEL(AttentionQueryGradientKernel<bf16, false>)
PHALANX_KERNEL(AttentionQueryGradientKernel<fp16, false>)
PHALANX_KERNEL(AttentionKeyGradientKernel<float, false>)
PHALANX_KERNEL(AttentionKeyGradientKernel<bf16, false>)
PHALANX_KERNEL(AttentionKeyGradientKernel<fp16, false>)
PHALANX_KERNEL(AttentionBiasGradientKernel<float, false>)
PHALANX_KERNEL(AttentionBiasGradientKernel<bf16, false>)
PHALANX_KERNEL(AttentionBiasGradientKernel<fp16, false>)
PHALANX_KERNEL(AttentionMergeKernel)
