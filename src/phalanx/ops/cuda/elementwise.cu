#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/elementwise-inl.h"

using namespace phalanx::cuda;

PHALANX_KERNEL(FillKernel<std::uint16_t>)
PHALANX_KERNEL(FillKernel<std::uint32_t>)
PHALANX_KERNEL(FillKernel<std::uint64_t>)

PHALANX_KERNEL(ConvertKernel<float, bf16>)
PHALANX_KERNEL(ConvertKernel<float, fp16>)
PHALANX_KERNEL(ConvertKernel<bf16, float>)
PHALANX_KERNEL(ConvertKernel<bf16, fp16>)
PHALANX_KERNEL(ConvertKernel<fp16, float>)
PHALANX_KERNEL(ConvertKernel<fp16, bf16>)

PHALANX_KERNEL(AccumulateKernel<float, float>)
PHALANX_KERNEL(AccumulateKernel<float, bf16>)
PHALANX_KERNEL(AccumulateKernel<float, fp16>)
PHALANX_KERNEL(AccumulateKernel<bf16, float>)
PHALANX_KERNEL(AccumulateKernel<bf16, bf16>)
PHALANX_KERNEL(AccumulateKernel<bf16, fp16>)
PHALANX_KERNEL(AccumulateKernel<fp16, float>)
PHALANX_KERNEL(AccumulateKernel<fp16, bf16>)
PHALANX_KERNEL(AccumulateKernel<fp16, fp16>)
PHALANX_KERNEL(AccumulateExactKernel<double>)
PHALANX_KERNEL(AccumulateExactKernel<std::int64_t>)
PHALANX_KERNEL(AccumulateExactKernel<std::int32_t>)

PHALANX_KERNEL(ScaleKernel<float>)
PHALANX_KERNEL(ScaleKernel<bf16>)
PHALANX_KERNEL(ScaleKernel<fp16>)

PHALANX_KERNEL(StridedCopyKernel<std::uint8_t, std::uint8_t>)
PHALANX_KERNEL(StridedCopyKernel<std::uint16_t, std::uint16_t>)
PHALANX_KERNEL(StridedCopyKernel<std::uint32_t, std::uint32_t>)
PHALANX_KERNEL(StridedCopyKernel<std::uint64_t, std::uint64_t>)
PHALANX_KERNEL(StridedCopyKernel<float, bf16>)
PHALANX_KERNEL(StridedCopyKernel<float, fp16>)
PHALANX_KERNEL(StridedCopyKernel<bf16, float>)
PHALANX_KERNEL(StridedCopyKernel<bf16, fp16>)
PHALANX_KERNEL(StridedCopyKernel<fp16, float>)
PHALANX_KERNEL(StridedCopyKernel<fp16, bf16>)
