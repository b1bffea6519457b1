#pragma once
// The last unit: final norm, two logits for every row, cross entropy with whether it is a peak. It
// computes on one tensor-parallel rank.

#include "phalanx/nn/linear.h"
#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace peaks {

class PeakHead final : public phalanx::nn::Unit {
 public:
  // Parameters final_layernorm.* and peak_head.{weight,bias}. `labels` and `mask` are columns of
  // the batch.
  PeakHead(phalanx::nn::ParamTable& table, std::size_t labels, std::size_t mask,
           const phalanx::nn::TransformerConfig& config);

  using Tensors = std::span<const phalanx::Tensor>;
  void forward(phalanx::nn::Pass& pass, Tensors inputs, Tensors outputs,
               const phalanx::nn::Saved& saved) const override;
  void backward_input(phalanx::nn::Pass& pass, Tensors inputs, Tensors output_gradients,
                      Tensors input_gradients, const phalanx::nn::Saved& saved) const override;
  void backward_weight(phalanx::nn::Pass& pass, Tensors inputs, const phalanx::nn::Saved& saved,
                       const phalanx::nn::Gradients& gradients) const override;

 private:
  phalanx::Tensor normed_rows(phalanx::nn::Pass& pass) const;

  const phalanx::nn::TransformerConfig config_;
  std::size_t labels_, mask_;
  phalanx::nn::Norm norm_;
  phalanx::nn::Linear classes_;
  phalanx::nn::SavedId dlogits_;
};

}  // namespace peaks
