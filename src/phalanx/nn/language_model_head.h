#pragma once
// The last unit: final norm, logits against the (tied) word table, cross entropy. Forward already
// knows what backward starts from (loss scale / tokens of the global batch, a constant), so it
// leaves the gradient of the logits, in storage type, where the logits were: b*s*V exists once. The
// vocabulary is cut over the tensor-parallel group: each rank has the logits of its words, and
// three numbers of every row are gathered (vocabulary-parallel cross entropy), never the logits.

#include "phalanx/nn/config.h"
#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

class LanguageModelHead final : public Unit {
 public:
  // `word_table` is the tied parameter, or -1 to add output_layer.weight.
  LanguageModelHead(ParamTable& table, ParamId word_table, std::int64_t vocabulary,
                    std::int64_t padded_vocabulary, const TransformerConfig& config);

  void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               const Saved& saved) const override;
  void backward_input(Pass& pass, std::span<const Tensor> inputs,
                      std::span<const Tensor> output_gradients,
                      std::span<const Tensor> input_gradients, const Saved& saved) const override;
  void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                       const Gradients& gradients) const override;
  void backward(Pass& pass, std::span<const Tensor> inputs,
                std::span<const Tensor> output_gradients, std::span<const Tensor> input_gradients,
                const Saved& saved, const Gradients& gradients) const override;

 private:
  void input_gradient(Pass& pass, const Tensor& dnorm, const Saved& saved) const;
  void weight_gradient(Pass& pass, const Tensor& normed, const Saved& saved,
                       const Gradients& gradients) const;
  // Rows of logits to losses and their gradients, in place or into dlogits.
  struct Rows {
    Tensor loss, dlogits, logits, targets, mask, seed;
  };
  void cross_entropy(Pass& pass, const Rows& rows) const;
  void last_logits(Pass& pass, const Tensor& x, const Saved& saved) const;

  const TransformerConfig config_;
  std::int64_t vocabulary_;
  std::int64_t columns_;  // of this rank, padding included
  LayerNorm norm_;
  ParamId output_;
  SavedId dlogits_;
};

}  // namespace phalanx::nn
