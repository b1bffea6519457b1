#pragma once
// The ops on a CUDA device, one source file per family: execute_<family>.cc. The context's scratch
// has at least workspace_bytes_of bytes, a function of shapes and of the device's sizes alone.

#include <cstdint>
#include <string_view>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// What scratch sizes depend on besides shapes.
struct CudaSizes {
  std::int64_t product_workspace_bytes = 0;  // Lt::workspace_bytes()
};
CudaSizes sizes_of(int device);

// Ops without an overload need no scratch.
template <typename Op>
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const Op& /*op*/) {
  return 0;
}
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearForward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearInputGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearWeightGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::BiasGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::NormBackward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::EmbeddingGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::SparseEmbeddingGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::RelativeBiasForward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::RelativeBiasBackward& op);

template <typename Op>
constexpr std::string_view op_name() {
#define PHALANX_OP_NAME(Name) #Name,
  constexpr std::string_view kNames[] = {PHALANX_OPS(PHALANX_OP_NAME)};
#undef PHALANX_OP_NAME
  return kNames[ops::number_in<Op>(ops::OpList())];
}

// An op without an overload has no kernels yet.
template <typename Op>
[[noreturn]] void execute(const CudaContext& /*context*/, const Op& /*op*/) {
  throw InternalError("no CUDA kernel computes the op {}", op_name<Op>());
}

#define PHALANX_CUDA_EXECUTE(Op) void execute(const CudaContext& context, const ops::Op& op);
PHALANX_CUDA_EXECUTE(LinearForward)
PHALANX_CUDA_EXECUTE(LinearInputGradient)
PHALANX_CUDA_EXECUTE(LinearWeightGradient)
PHALANX_CUDA_EXECUTE(BiasGradient)
PHALANX_CUDA_EXECUTE(NormForward)
PHALANX_CUDA_EXECUTE(NormApply)
PHALANX_CUDA_EXECUTE(NormBackward)
PHALANX_CUDA_EXECUTE(BiasActivationForward)
PHALANX_CUDA_EXECUTE(BiasActivationBackward)
PHALANX_CUDA_EXECUTE(GatedActivationForward)
PHALANX_CUDA_EXECUTE(GatedActivationBackward)
PHALANX_CUDA_EXECUTE(TanhForward)
PHALANX_CUDA_EXECUTE(TanhBackward)
PHALANX_CUDA_EXECUTE(BiasDropoutResidual)
PHALANX_CUDA_EXECUTE(DropoutBackward)
PHALANX_CUDA_EXECUTE(EmbeddingForward)
PHALANX_CUDA_EXECUTE(AddPositions)
PHALANX_CUDA_EXECUTE(EmbeddingGradient)
PHALANX_CUDA_EXECUTE(SparseEmbeddingGradient)
PHALANX_CUDA_EXECUTE(SparseEmbeddingJoin)
PHALANX_CUDA_EXECUTE(RelativeBiasForward)
PHALANX_CUDA_EXECUTE(RelativeBiasBackward)
PHALANX_CUDA_EXECUTE(RotaryTable)
PHALANX_CUDA_EXECUTE(Rotate)
PHALANX_CUDA_EXECUTE(CrossEntropy)
PHALANX_CUDA_EXECUTE(CrossEntropyStatistics)
PHALANX_CUDA_EXECUTE(VocabularyParallelCrossEntropy)
PHALANX_CUDA_EXECUTE(LabelMask)
PHALANX_CUDA_EXECUTE(LossSeed)
PHALANX_CUDA_EXECUTE(LossAccumulate)
PHALANX_CUDA_EXECUTE(AdamSegments)
PHALANX_CUDA_EXECUTE(SgdSegments)
PHALANX_CUDA_EXECUTE(SquareSumSegments)
PHALANX_CUDA_EXECUTE(ZeroCountSegments)
PHALANX_CUDA_EXECUTE(TotalSegments)
PHALANX_CUDA_EXECUTE(Total)
PHALANX_CUDA_EXECUTE(GradientFactor)
PHALANX_CUDA_EXECUTE(Fill)
PHALANX_CUDA_EXECUTE(Copy)
PHALANX_CUDA_EXECUTE(Accumulate)
PHALANX_CUDA_EXECUTE(Scale)
PHALANX_CUDA_EXECUTE(Normal)
#undef PHALANX_CUDA_EXECUTE

}  // namespace phalanx::cuda
