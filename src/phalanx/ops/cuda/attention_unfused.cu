#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/attention_unfused-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(UnfusedAttentionForwardKernel<float>)
PHALANX_KERNEL(UnfusedAttentionForwardKernel<bf16>)
PHALANX_KERNEL(UnfusedAttentionForwardKernel<fp16>)
PHALANX_KERNEL(UnfusedAttentionDeltaKernel<float>)
PHALANX_KERNEL(UnfusedAttentionDeltaKernel<bf16>)
PHALANX_KERNEL(UnfusedAttentionDeltaKernel<fp16>)
PHALANX_KERNEL(AttentionQueryGradientKernel<float, true>)
PHALANX_KERNEL(AttentionQueryGradientKernel<bf16, true>)
PHALANX_KERNEL(AttentionQueryGradientKernel<fp16, true>)
PHALANX_KERNEL(AttentionKeyGradientKernel<float, true>)
PHALANX_KERNEL(AttentionKeyGradientKernel<bf16, true>)
PHALANX_KERNEL(AttentionKeyGradientKernel<fp16, true>)
PHALANX_KERNEL(AttentionBiasGradientKernel<float, true>)
PHALANX_KERNEL(AttentionBiasGradientKernel<bf16, true>)
PHALANX_KERNEL(AttentionBiasGradientKernel<fp16, true>)
