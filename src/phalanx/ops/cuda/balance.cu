#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/balance-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(BalanceRowsKernel)
PHALANX_KERNEL(BalancePartsKernel)
PHALANX_KERNEL(BalanceSumsKernel)
PHALANX_KERNEL(SquaresKernel)
PHALANX_KERNEL(BalanceLossKernel)
PHALANX_KERNEL(BalanceGradientKernel)
PHALANX_KERNEL(ExpertCountsKernel)
PHALANX_KERNEL(ExpertBiasKernel)
