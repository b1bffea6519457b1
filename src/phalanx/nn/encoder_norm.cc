#include "phalanx/nn/encoder_norm.h"

namespace phalanx::nn {

StreamSpec encoder_output_stream(const TransformerConfig& config) {
  return {.name = "encoder output",
          .dtype = config.dtype,
          .width = config.hidden,
          .sequence = Sequence::kEncoder,
          .carried = true};
}

EncoderNorm::EncoderNorm(ParamTable& table, const TransformerConfig& config)
    : Unit("encoder norm", config.sequence),
      norm_(table, parameters_, slots_, config.stack + ".final_layernorm", config) {
  inputs_ = {{.name = "hidden states",
              .dtype = config.stream_dtype(),
              .width = config.hidden,
              .sequence = config.sequence}};
  outputs_ = {encoder_output_stream(config)};
  input_last_reader_ = LastReader::kInputGradient;
}

void EncoderNorm::forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const {
  norm_.forward(pass, outputs[0], inputs[0], saved);
}

void EncoderNorm::backward_input(Pass& pass, Tensors inputs, Tensors output_gradients,
                                 Tensors input_gradients, const Saved& saved) const {
  norm_.backward_input(pass, input_gradients[0], output_gradients[0], inputs[0], {}, saved);
}

void EncoderNorm::backward_weight(Pass& pass, Tensors /*inputs*/, const Saved& saved,
                                  const Gradients& gradients) const {
  norm_.backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
