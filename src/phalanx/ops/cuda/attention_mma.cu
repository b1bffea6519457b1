#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/attention_mma_backward-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(AttentionMmaForwardKernel<bf16, 64>)
PHALANX_KERNEL(AttentionMmaForwardKernel<bf16, 128>)
PHALANX_KERNEL(AttentionMmaForwardKernel<fp16, 64>)
PHALANX_KERNEL(AttentionMmaForwardKernel<fp16, 128>)

PHALANX_KERNEL(AttentionMmaQueryGradientKernel<bf16, 64, false>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<bf16, 128, false>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<fp16, 64, false>)
PHALANX_KERNEL(AttentionMmaQueryGradientKernel<fp16, 128, false>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<bf16, 64, false>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<bf16, 128, false>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<fp16, 64, false>)
PHALANX_KERNEL(AttentionMmaKeyGradientKernel<fp16, 128, false>)
