#include "phalanx/nn/transformer_layer.h"

#include <fmt/core.h>

namespace phalanx::nn {

TransformerLayer::TransformerLayer(ParamTable& table, std::int64_t layer, std::int64_t local_layer,
                                   const TransformerConfig& config)
    : Unit(fmt::format("layer {}", layer)),
      config_(config),
      attention_(table, parameters_, slots_, fmt::format("decoder.layers.{}", layer), layer,
                 local_layer, config),
      middle_(slots_.add_stream("attention output", config.stream_dtype(), config.hidden,
                                Born::kForward, LastReader::kWeightGradient)),
      mlp_(table, parameters_, slots_, fmt::format("decoder.layers.{}", layer), layer, config) {
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
  outputs_ = inputs_;
}

void TransformerLayer::forward(Pass& pass, std::span<const Tensor> inputs,
                               std::span<const Tensor> outputs, const Saved& saved) const {
  attention_.forward(pass, saved[middle_], inputs[0], saved);
  mlp_.forward(pass, outputs[0], saved[middle_], saved);
}

void TransformerLayer::recompute(Pass& pass, std::span<const Tensor> inputs,
                                 const Saved& saved) const {
  attention_.forward(pass, saved[middle_], inputs[0], saved);
  mlp_.recompute(pass, saved[middle_], saved);
}

void TransformerLayer::backward_input(Pass& pass, std::span<const Tensor> inputs,
                                      std::span<const Tensor> output_gradients,
                                      std::span<const Tensor> input_gradients,
                                      const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dmiddle = pass.scratch_stream(config_.stream_dtype(), config_.hidden);
  mlp_.backward_input(pass, dmiddle, output_gradients[0], saved[middle_], saved);
  attention_.backward_input(pass, input_gradients[0], dmiddle, inputs[0], saved);
}

void TransformerLayer::backward_weight(Pass& pass, std::span<const Tensor> inputs,
                                       const Saved& saved, const Gradients& gradients) const {
  mlp_.backward_weight(pass, saved[middle_], saved, gradients);
  attention_.backward_weight(pass, inputs[0], saved, gradients);
}

void TransformerLayer::backward(Pass& pass, std::span<const Tensor> inputs,
                                std::span<const Tensor> output_gradients,
                                std::span<const Tensor> input_gradients, const Saved& saved,
                                const Gradients& gradients) const {
  if (!pass.region.overlaps()) {
    return Unit::backward(pass, inputs, output_gradients, input_gradients, saved, gradients);
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dmiddle = pass.scratch_stream(config_.stream_dtype(), config_.hidden);
  mlp_.backward(pass, dmiddle, output_gradients[0], saved[middle_], saved, gradients);
  attention_.backward(pass, input_gradients[0], dmiddle, inputs[0], saved, gradients);
}

}  // namespace phalanx::nn
