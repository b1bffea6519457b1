#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/router-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(RouterForwardKernel)
PHALANX_KERNEL(RouterBackwardKernel)
PHALANX_KERNEL(RouterCapacityKernel)
PHALANX_KERNEL(DroppedZerosKernel)
PHALANX_KERNEL(SinkhornKernel)
PHALANX_KERNEL(SinkhornChoiceKernel)
