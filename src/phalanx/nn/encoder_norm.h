#pragma once
// The last unit of an encoder: its final norm. The decoder's layers read its output.

#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// The encoder's output, in storage type even if the residual stream is f32. `config` may be of
// either stack.
StreamSpec encoder_output_stream(const TransformerConfig& config);

class EncoderNorm final : public Unit {
 public:
  // Parameters STACK.final_layernorm.*.
  EncoderNorm(ParamTable& table, const TransformerConfig& config);

  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  Norm norm_;
};

}  // namespace phalanx::nn
