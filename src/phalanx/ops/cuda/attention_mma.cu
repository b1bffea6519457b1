#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/attention_mma-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(AttentionMmaForwardKernel<bf16, 64>)
PHALANX_KERNEL(AttentionMmaForwardKernel<bf16, 128>)
PHALANX_KERNEL(AttentionMmaForwardKernel<fp16, 64>)
PHALANX_KERNEL(AttentionMmaForwardKernel<fp16, 128>)
