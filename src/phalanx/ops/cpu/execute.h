#pragma once
// The CPU's implementation of every op, one source file per family with the family's name. Scratch
// is at least workspace_bytes_of bytes; ops without an overload need none.

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

template <typename Op>
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const Op& /*op*/) {
  return 0;
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearInputGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearWeightGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::BiasGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LayerNormBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RmsNormBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RelativeBiasForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RelativeBiasBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::CrossEntropy& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LossAccumulate& op);

// linear.cc
void execute(CpuDevice& device, const ops::LinearForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LinearInputGradient& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LinearWeightGradient& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::BiasGradient& op, const Tensor& scratch);

// layer_norm.cc
void execute(CpuDevice& device, const ops::LayerNormForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LayerNormApply& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LayerNormBackward& op, const Tensor& scratch);

// rms_norm.cc
void execute(CpuDevice& device, const ops::RmsNormForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::RmsNormApply& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::RmsNormBackward& op, const Tensor& scratch);

// activation.cc
void execute(CpuDevice& device, const ops::BiasActivationForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::BiasActivationBackward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::GatedActivationForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::GatedActivationBackward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::TanhForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::TanhBackward& op, const Tensor& scratch);

// dropout.cc
void execute(CpuDevice& device, const ops::BiasDropoutResidual& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::DropoutBackward& op, const Tensor& scratch);

// embedding.cc
void execute(CpuDevice& device, const ops::EmbeddingForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::AddPositions& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::EmbeddingGradient& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::SparseEmbeddingGradient& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::SparseEmbeddingJoin& op, const Tensor& scratch);

// attention.cc
void execute(CpuDevice& device, const ops::AttentionForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::AttentionDelta& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::AttentionBackward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::UnfusedAttentionForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::UnfusedAttentionBackward& op, const Tensor& scratch);

// relative_bias.cc
void execute(CpuDevice& device, const ops::RelativeBiasForward& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::RelativeBiasBackward& op, const Tensor& scratch);

// rotary.cc
void execute(CpuDevice& device, const ops::RotaryTable& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Rotate& op, const Tensor& scratch);

// cross_entropy.cc
void execute(CpuDevice& device, const ops::CrossEntropy& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::CrossEntropyStatistics& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::VocabularyParallelCrossEntropy& op,
             const Tensor& scratch);
void execute(CpuDevice& device, const ops::LabelMask& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LossSeed& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::LossAccumulate& op, const Tensor& scratch);

// optimizer.cc
void execute(CpuDevice& device, const ops::Adam& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Sgd& op, const Tensor& scratch);

// reduce.cc
void execute(CpuDevice& device, const ops::SquareSum& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::ZeroCount& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Total& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::GradientFactor& op, const Tensor& scratch);

// elementwise.cc
void execute(CpuDevice& device, const ops::Fill& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Copy& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Accumulate& op, const Tensor& scratch);
void execute(CpuDevice& device, const ops::Scale& op, const Tensor& scratch);

// random.cc
void execute(CpuDevice& device, const ops::Normal& op, const Tensor& scratch);

}  // namespace phalanx::cpu
