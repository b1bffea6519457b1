#pragma once
// The reference: plain double precision on tensors of any floating type, slow and obvious. The
// judge in tests; with f64 tensors whole layers can be differentiated numerically. It takes no
// scratch memory.

#include "phalanx/ops/backend.h"

namespace phalanx::ref {

struct RefDevice {};

template <typename Op>
std::int64_t workspace_bytes_of(const RefDevice& /*device*/, const Op& /*op*/) {
  return 0;
}

// linear.cc
void execute(RefDevice& device, const ops::LinearForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LinearInputGradient& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LinearWeightGradient& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::BiasGradient& op, const Tensor& scratch);

// layer_norm.cc
void execute(RefDevice& device, const ops::LayerNormForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LayerNormApply& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LayerNormBackward& op, const Tensor& scratch);

// rms_norm.cc
void execute(RefDevice& device, const ops::RmsNormForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::RmsNormApply& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::RmsNormBackward& op, const Tensor& scratch);

// activation.cc
void execute(RefDevice& device, const ops::BiasActivationForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::BiasActivationBackward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::GatedActivationForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::GatedActivationBackward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::TanhForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::TanhBackward& op, const Tensor& scratch);

// dropout.cc
void execute(RefDevice& device, const ops::BiasDropoutResidual& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::DropoutBackward& op, const Tensor& scratch);

// embedding.cc
void execute(RefDevice& device, const ops::EmbeddingForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::AddPositions& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::EmbeddingGradient& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::SparseEmbeddingGradient& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::SparseEmbeddingJoin& op, const Tensor& scratch);

// attention.cc
void execute(RefDevice& device, const ops::AttentionForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::AttentionDelta& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::AttentionBackward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::UnfusedAttentionForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::UnfusedAttentionBackward& op, const Tensor& scratch);

// relative_bias.cc
void execute(RefDevice& device, const ops::RelativeBiasForward& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::RelativeBiasBackward& op, const Tensor& scratch);

// rotary.cc
void execute(RefDevice& device, const ops::RotaryTable& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Rotate& op, const Tensor& scratch);

// cross_entropy.cc
void execute(RefDevice& device, const ops::CrossEntropy& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::CrossEntropyStatistics& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::VocabularyParallelCrossEntropy& op,
             const Tensor& scratch);
void execute(RefDevice& device, const ops::LabelMask& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LossSeed& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::LossAccumulate& op, const Tensor& scratch);

// optimizer.cc
void execute(RefDevice& device, const ops::Adam& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Sgd& op, const Tensor& scratch);

// reduce.cc
void execute(RefDevice& device, const ops::SquareSum& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::ZeroCount& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Total& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::GradientFactor& op, const Tensor& scratch);

// elementwise.cc
void execute(RefDevice& device, const ops::Fill& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Copy& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Accumulate& op, const Tensor& scratch);
void execute(RefDevice& device, const ops::Scale& op, const Tensor& scratch);

// random.cc
void execute(RefDevice& device, const ops::Normal& op, const Tensor& scratch);

}  // namespace phalanx::ref
