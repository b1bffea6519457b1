#pragma once
// A pre-norm Transformer layer: self attention, then MLP, each with its residual.

#include "phalanx/nn/mlp.h"
#include "phalanx/nn/self_attention.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

class TransformerLayer final : public Unit {
 public:
  // Parameters decoder.layers.LAYER.*; `layer` is global, `local_layer` counts within the chunk.
  TransformerLayer(ParamTable& table, std::int64_t layer, std::int64_t local_layer,
                   const TransformerConfig& config);

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
  bool recomputable() const override { return true; }
  void recompute(Pass& pass, std::span<const Tensor> inputs, const Saved& saved) const override;

 private:
  const TransformerConfig config_;
  SelfAttention attention_;
  SavedId middle_;  // the residual stream between the two
  Mlp mlp_;
};

}  // namespace phalanx::nn
