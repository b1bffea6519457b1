#include "phalanx/ops/cuda/workspace_sizes.h"

#include <algorithm>

#include "phalanx/ops/cuda/scratch.h"

namespace phalanx {
namespace cuda {
namespace {

std::int64_t sums_scratch(const Tensor& dy) {
  return column_sums_scratch(dy.shape[0], dy.shape[1]);
}

}  // namespace

std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearForward& op) {
  const bool wide_bias = op.bias && op.bias.dtype != op.y.dtype;
  return forward_scratch(sizes.product_workspace_bytes, op.y.shape[1], wide_bias);
}
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearInputGradient& /*op*/) {
  return sizes.product_workspace_bytes;
}
std::int64_t workspace_bytes_of(const CudaSizes& sizes, const ops::LinearWeightGradient& op) {
  // One after the other.
  return std::max(sizes.product_workspace_bytes, op.dbias ? sums_scratch(op.dy) : 0);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::BiasGradient& op) {
  return sums_scratch(op.dy);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::GroupedLinearForward& op) {
  return row_tiles_scratch_bytes(op.x.shape[0], op.weight.shape[0]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/,
                                const ops::GroupedLinearInputGradient& op) {
  return row_tiles_scratch_bytes(op.dy.shape[0], op.weight.shape[0]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::SortPairs& op) {
  return embedding_gradient_scratch_bytes(op.chosen.count());
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::NormBackward& op) {
  const bool has_places = op.x.shape.rank() == 3;
  return norm_backward_scratch(op.x.shape[0] * (has_places ? op.x.shape[1] : 1), op.x.shape.back());
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::EmbeddingGradient& op) {
  return embedding_gradient_scratch_bytes(op.ids.count());
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/,
                                const ops::SparseEmbeddingGradient& op) {
  return sparse_embedding_gradient_scratch_bytes(op.ids.count());
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/,
                                const ops::UnfusedAttentionBackward& op) {
  const Shape& probabilities = op.probabilities.shape;
  return unfused_attention_backward_scratch_bytes(probabilities[0], probabilities[1],
                                                  probabilities[2]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::RelativeBiasForward& op) {
  return relative_bias_forward_scratch_bytes(op.bias.shape[0], op.bias.shape[1], op.bias.shape[2]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::RelativeBiasBackward& op) {
  return relative_bias_backward_scratch_bytes(op.dbias.shape[0], op.dbias.shape[1],
                                              op.dbias.shape[2]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::SinkhornChoice& op) {
  return sinkhorn_scratch_bytes(op.logits.shape[0], op.logits.shape[1]);
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::BalanceStatistics& op) {
  return balance_scratch_bytes(op.logits.shape[0], op.counts.shape[0], op.logits.shape[1]);
}

}  // namespace cuda

std::unique_ptr<const WorkspaceSizes> cuda_workspace_sizes(const cuda::CudaSizes& sizes) {
  return std::make_unique<ops::WorkspaceSizesOf<cuda::CudaSizes>>(sizes);
}

}  // namespace phalanx
