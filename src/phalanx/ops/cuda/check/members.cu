#include "phalanx/ops/cuda/check/members-inl.h"
#include "phalanx/cuda/kernel.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(ArithmeticMember)
PHALANX_KERNEL(DoubleMember)
PHALANX_KERNEL(ConversionMember)
PHALANX_KERNEL(WarpMember)
PHALANX_KERNEL(MatrixMember<bf16>)
PHALANX_KERNEL(MatrixMember<fp16>)
PHALANX_KERNEL(CopyMember)
PHALANX_KERNEL(AtomicMember)
PHALANX_KERNEL(PlaceMember)
PHALANX_KERNEL(ApproximateMember)
PHALANX_KERNEL(MemoryMember)
