#include "phalanx/nn/transformer_layer.h"

#include <fmt/core.h>

#include "phalanx/nn/cross_attention.h"
#include "phalanx/nn/encoder_norm.h"
#include "phalanx/nn/expert_mlp.h"
#include "phalanx/nn/mlp.h"
#include "phalanx/nn/self_attention.h"

namespace phalanx::nn {
namespace {

// The name has no stack in a model with only one.
std::string layer_name(std::int64_t layer, const TransformerConfig& config) {
  const bool only = config.stack == "decoder" && config.sequence == Sequence::kOnly;
  return fmt::format("{}layer {}", only ? "" : config.stack + " ", layer);
}

}  // namespace

TransformerLayer::TransformerLayer(ParamTable& table, std::int64_t layer, std::int64_t local_layer,
                                   const TransformerConfig& config, EncoderOutput encoder_output)
    : Unit(layer_name(layer, config), config.sequence),
      config_(config),
      reads_encoder_(encoder_output != EncoderOutput::kNone) {
  const std::string prefix = fmt::format("{}.layers.{}", config.stack, layer);
  const auto add = [&](Sublayer sublayer) {
    sublayers_.push_back(std::make_unique<const Sublayer>(std::move(sublayer)));
  };
  add(self_attention_sublayer(table, parameters_, slots_, prefix, layer, local_layer, config));
  add_between("attention output");
  if (reads_encoder_) {
    add(cross_attention_sublayer(table, parameters_, slots_, prefix, layer, config));
    add_between("cross attention output");
  }
  if (config.experts.in_layer(layer)) {
    sublayers_.push_back(expert_sublayer(table, parameters_, slots_, prefix, layer, config));
  } else {
    add(mlp_sublayer(table, parameters_, slots_, prefix, layer, config));
  }
  for (std::size_t i = 0; i < between_.size(); ++i) {
    slots_.set_last_reader(between_[i], sublayers_[i + 1]->input_last_reader());
  }
  // Cross attention's weights read the encoder's output.
  if (!reads_encoder_) input_last_reader_ = sublayers_.front()->input_last_reader();
  inputs_ = {{.name = "hidden states",
              .dtype = config.stream_dtype(),
              .width = config.hidden,
              .sequence = config.sequence}};
  outputs_ = inputs_;
  if (reads_encoder_) inputs_.push_back(encoder_output_stream(config));
  if (encoder_output == EncoderOutput::kRead) outputs_.push_back(encoder_output_stream(config));
}

void TransformerLayer::add_between(const std::string& name) {
  between_.push_back(slots_.add_stream(name, config_.stream_dtype(), config_.hidden, Born::kForward,
                                       LastReader::kWeightGradient));
}

BodyCall TransformerLayer::body_call(Pass& pass, Tensors inputs, const Saved& saved) const {
  return {.pass = pass, .saved = saved, .carried = reads_encoder_ ? inputs[1] : Tensor{}};
}

void TransformerLayer::forward(Pass& pass, Tensors inputs, Tensors outputs,
                               const Saved& saved) const {
  InferencePass alone{.pass = pass};
  infer(alone, inputs, outputs, saved);
}

void TransformerLayer::infer(InferencePass& pass, Tensors inputs, Tensors outputs,
                             const Saved& saved) const {
  BodyCall call = body_call(pass.pass, inputs, saved);
  // Without a causal mask rows see later ones, so sequences are computed whole.
  if (config_.causal) call.caches = pass.caches;
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    const bool last = i + 1 == sublayers_.size();
    sublayers_[i]->forward(call, last ? outputs[0] : saved[between_[i]], stream(i, inputs, saved));
  }
}

void TransformerLayer::recompute(Pass& pass, Tensors inputs, const Saved& saved) const {
  const BodyCall call = body_call(pass, inputs, saved);
  for (std::size_t i = 0; i < between_.size(); ++i) {
    sublayers_[i]->forward(call, saved[between_[i]], stream(i, inputs, saved));
  }
  sublayers_.back()->recompute(call, stream(between_.size(), inputs, saved));
}

template <typename Backward>
void TransformerLayer::for_each_backward(Pass& pass, Tensors output_gradients,
                                         Tensors input_gradients, const Backward& backward) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dbetween = pass.scratch_stream(config_.stream_dtype(), config_.hidden);
  for (std::size_t i = sublayers_.size(); i-- > 0;) {
    backward(i, i == 0 ? input_gradients[0] : dbetween,
             i + 1 == sublayers_.size() ? output_gradients[0] : dbetween);
  }
}

void TransformerLayer::backward_input(Pass& pass, Tensors inputs, Tensors output_gradients,
                                      Tensors input_gradients, const Saved& saved) const {
  BodyCall call = body_call(pass, inputs, saved);
  if (reads_encoder_) call.carried_gradient = input_gradients[1];
  for_each_backward(pass, output_gradients, input_gradients,
                    [&](std::size_t i, const Tensor& dx, const Tensor& dout) {
                      sublayers_[i]->backward_input(call, dx, dout, stream(i, inputs, saved));
                    });
}

void TransformerLayer::backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                                       const Gradients& gradients) const {
  const BodyCall call = body_call(pass, inputs, saved);
  for (std::size_t i = sublayers_.size(); i-- > 0;) {
    sublayers_[i]->backward_weight(call, stream(i, inputs, saved), gradients);
  }
}

void TransformerLayer::backward(Pass& pass, Tensors inputs, Tensors output_gradients,
                                Tensors input_gradients, const Saved& saved,
                                const Gradients& gradients) const {
  if (!pass.region.overlaps()) {
    return Unit::backward(pass, inputs, output_gradients, input_gradients, saved, gradients);
  }
  BodyCall call = body_call(pass, inputs, saved);
  if (reads_encoder_) call.carried_gradient = input_gradients[1];
  for_each_backward(pass, output_gradients, input_gradients,
                    [&](std::size_t i, const Tensor& dx, const Tensor& dout) {
                      sublayers_[i]->backward(call, dx, dout, stream(i, inputs, saved), gradients);
                    });
}

}  // namespace phalanx::nn
