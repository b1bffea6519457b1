#include "phalanx/nn/language_model_head.h"

namespace phalanx::nn {

LanguageModelHead::LanguageModelHead(ParamTable& table, const VocabularyOptions& options,
                                     const TransformerConfig& config)
    : Unit("head", config.sequence),
      entry_(Norm(table, parameters_, slots_, config.stack + ".final_layernorm", config), config),
      projection_(table, parameters_, slots_, options, config) {
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden, config.sequence}};
  input_last_reader_ = last_reader_if(projection_.entry_trains());
}

LanguageModelHead::LanguageModelHead(ParamTable& table, Output output, std::int64_t vocabulary,
                                     std::int64_t padded_vocabulary, const TargetColumns& columns,
                                     const TransformerConfig& config)
    : LanguageModelHead(table,
                        {.vocabulary = vocabulary,
                         .padded_vocabulary = padded_vocabulary,
                         .tied = output == Output::kTied,
                         .columns = columns},
                        config) {}

void LanguageModelHead::forward(Pass& pass, Tensors inputs, Tensors /*outputs*/,
                                const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  projection_.losses(pass, entry_.forward(pass, inputs[0], saved), saved);
}

void LanguageModelHead::infer(InferencePass& pass, Tensors inputs, Tensors /*outputs*/,
                              const Saved& saved) const {
  const WorkspaceScope scope(pass.pass.ops.workspace);
  const Tensor normed = entry_.forward(pass.pass, inputs[0], saved);
  if (pass.row_losses || !pass.logits) {
    projection_.losses(pass.pass, normed, saved, pass.row_losses, pass.logits);
    return;
  }
  projection_.whole_logits(pass.pass, pass.logits, normed.select(0, pass.pass.shape.sequence - 1));
}

void LanguageModelHead::backward_input(Pass& pass, Tensors inputs, Tensors /*output_gradients*/,
                                       Tensors input_gradients, const Saved& saved) const {
  BodyCall call{.pass = pass, .saved = saved};
  entry_.backward_input(call, projection_, input_gradients[0], inputs[0], {});
}

void LanguageModelHead::backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                                        const Gradients& gradients) const {
  BodyCall call{.pass = pass, .saved = saved};
  entry_.backward_weight(call, projection_, inputs[0], gradients);
}

void LanguageModelHead::backward(Pass& pass, Tensors inputs, Tensors output_gradients,
                                 Tensors input_gradients, const Saved& saved,
                                 const Gradients& gradients) const {
  if (!pass.region.overlaps()) {
    return Unit::backward(pass, inputs, output_gradients, input_gradients, saved, gradients);
  }
  BodyCall call{.pass = pass, .saved = saved};
  entry_.backward(call, projection_, input_gradients[0], inputs[0], {}, gradients);
}

}  // namespace phalanx::nn
