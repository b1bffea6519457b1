#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/attention_unfused_mma-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(UnfusedAttentionMmaForwardKernel<bf16, 64>)
PHALANX_KERNEL(UnfusedAttentionMmaForwardKernel<bf16, 128>)
PHALANX_KERNEL(UnfusedAttentionMmaForwardKernel<fp16, 64>)
PHALANX_KERNEL(UnfusedAttentionMmaForwardKernel<fp16, 128>)
PHALANX_KERNEL(UnfusedAttentionMmaDeltaKernel<bf16, 64>)
PHALANX_KERNEL(UnfusedAttentionMmaDeltaKernel<bf16, 128>)
PHALANX_KERNEL(UnfusedAttentionMmaDeltaKernel<fp16, 64>)
PHALANX_KERNEL(UnfusedAttentionMmaDeltaKernel<fp16, 128>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<bf16, 64, true>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<bf16, 128, true>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<fp16, 64, true>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<fp16, 128, true>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<bf16, 64, true>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<bf16, 128, true>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<fp16, 64, true>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<fp16, 128, true>)
