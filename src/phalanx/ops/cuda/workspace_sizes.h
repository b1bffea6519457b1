#pragma once
// The scratch memory that ops take on a CUDA device: of shapes and of the device's sizes alone, so
// the program has it, too, and plans for devices that are not there.

#include <cstdint>
#include <memory>
#include <string_view>

#include "phalanx/ops/backend.h"

namespace phalanx {
namespace cuda {

// X(Op) for every op that has kernels, which are all of them: an op of PHALANX_OPS that is not here
// does not compile.
// clang-format off
#define PHALANX_CUDA_OPS(X) \
  X(LinearForward) X(LinearInputGradient) X(LinearWeightGradient) \
  X(GroupedLinearForward) X(GroupedLinearInputGradient) X(GroupedLinearWeightGradient) \
  X(GroupedBiasGradient) X(GroupedBiasDots) X(GroupedActivationForward) \
  X(GroupedActivationBackward) X(SortPairs) X(PermuteRows) X(UnpermuteRows) X(PairDots) \
  X(GatherElements) \
  X(BiasGradient) X(NormForward) X(NormApply) X(NormBackward) \
  X(BiasActivationForward) X(BiasActivationBackward) X(GatedActivationForward) \
  X(GatedActivationBackward) X(TanhForward) X(TanhBackward) \
  X(BiasDropoutResidual) X(DropoutBackward) X(Jitter) X(EmbeddingForward) X(AddPositions) \
  X(EmbeddingGradient) X(SparseEmbeddingGradient) X(SparseEmbeddingJoin) \
  X(AttentionForward) X(AttentionDelta) X(AttentionBackward) X(AttentionMerge) \
  X(UnfusedAttentionForward) X(UnfusedAttentionBackward) \
  X(RelativeBiasForward) X(RelativeBiasBackward) X(RotaryTable) X(Rotate) \
  X(CrossEntropy) X(CrossEntropyStatistics) X(VocabularyParallelCrossEntropy) \
  X(LabelMask) X(LossSeed) X(LossAccumulate) X(AdamSegments) \
  X(SgdSegments) X(SquareSumSegments) X(ZeroCountSegments) X(TotalSegments) X(Total) \
  X(GradientFactor) X(Fill) X(Copy) X(Accumulate) X(Scale) X(Normal) X(Uniform) \
  X(RouterForward) X(RouterBackward) X(RouterCapacity) X(SinkhornChoice) \
  X(BalanceStatistics) X(BalanceLoss) X(BalanceGradient) X(ExpertCounts) X(ExpertBiasUpdate)
// clang-format on

// What scratch sizes depend on besides shapes.
struct CudaSizes {
  std::int64_t product_workspace_bytes = 0;  // Lt::workspace_bytes()
};

template <typename Op>
inline constexpr bool kHasKernels = false;
#define PHALANX_CUDA_HAS(Op) \
  template <>                \
  inline constexpr bool kHasKernels<ops::Op> = true;
PHALANX_CUDA_OPS(PHALANX_CUDA_HAS)
#undef PHALANX_CUDA_HAS

// Ops without an overload need no scratch.
template <typename Op>
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const Op& /*op*/) {
  static_assert(kHasKernels<Op>, "PHALANX_CUDA_OPS lacks an op, or no kernel computes it");
  return 0;
}
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearForward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearInputGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearWeightGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::BiasGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::GroupedLinearForward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::GroupedLinearInputGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::SortPairs& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::NormBackward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::EmbeddingGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::SparseEmbeddingGradient& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::UnfusedAttentionBackward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::RelativeBiasForward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::RelativeBiasBackward& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::SinkhornChoice& op);
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::BalanceStatistics& op);

}  // namespace cuda

// For plans.
std::unique_ptr<const WorkspaceSizes> cuda_workspace_sizes(const cuda::CudaSizes& sizes);

}  // namespace phalanx
