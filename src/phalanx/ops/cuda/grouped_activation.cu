#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/grouped_activation-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(GroupedActivationForwardKernel<float>)
PHALANX_KERNEL(GroupedActivationForwardKernel<bf16>)
PHALANX_KERNEL(GroupedActivationForwardKernel<fp16>)
PHALANX_KERNEL(GroupedActivationBackwardKernel<float>)
PHALANX_KERNEL(GroupedActivationBackwardKernel<bf16>)
PHALANX_KERNEL(GroupedActivationBackwardKernel<fp16>)
