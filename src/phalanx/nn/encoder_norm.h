#pragma once
// The last unit of an encoder: its final norm, whose output the layers of the decoder read.

#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// The encoder's output, in storage type also where the residual stream is f32. `config` is of
// either stack.
StreamSpec encoder_output_stream(const TransformerConfig& config);

class EncoderNorm final : public Unit {
 public:
  // Parameters STACK.final_layernorm.*.
  EncoderNorm(ParamTable& table, const TransformerConfig& config);

  void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               const Saved& saved) const override;
  void backward_input(Pass& pass, std::span<const Tensor> inputs,
                      std::span<const Tensor> output_gradients,
                      std::span<const Tensor> input_gradients, const Saved& saved) const override;
  void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  Norm norm_;
};

}  // namespace phalanx::nn
