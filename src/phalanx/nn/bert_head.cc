#include "phalanx/nn/bert_head.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

constexpr std::int64_t kClasses = 2;
// Of the model's losses.
constexpr std::size_t kBinaryLoss = 1;

}  // namespace

BertHead::BertHead(ParamTable& table, const BertHeadOptions& options,
                   const TransformerConfig& config)
    : Unit("head", config.sequence),
      config_(config),
      norm_(bert_final_norm(table, parameters_, slots_, config)),
      dense_(table, parameters_, "lm_head.dense", config.hidden, config.hidden, config,
             config.init_deviation, Linear::Cut::kStream, Linear::Bias::kByCaller),
      entry_(Norm(table, parameters_, slots_, "lm_head.layer_norm", config), config),
      projection_(table, parameters_, slots_, options.vocabulary, config) {
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
  dense_output_ = slots_.add_stream("head dense output", config.dtype, config.hidden,
                                    Born::kForward, LastReader::kWeightGradient);
  ddense_output_ = slots_.add_stream("head dense output gradient", config.dtype, config.hidden,
                                     Born::kInputGradient, LastReader::kWeightGradient);
  if (!options.binary_labels) return;
  BertPooler pooler(table, parameters_, slots_, config);
  Linear classes(table, parameters_, "binary_head", kClasses, config.hidden, config,
                 config.init_deviation, Linear::Cut::kWhole, Linear::Bias::kInProduct);
  const SavedId dlogits = slots_.add({"binary logit gradient", config.dtype, Born::kForward,
                                      LastReader::kWeightGradient, [](const BatchShape& batch) {
                                        return Shape{batch.micro_batch, kClasses};
                                      }});
  binary_.emplace(Binary{*options.binary_labels, pooler, classes, dlogits});
}

void BertHead::forward(Pass& pass, Tensors inputs, Tensors /*outputs*/, const Saved& saved) const {
  losses(pass, inputs[0], saved, {}, {});
}

void BertHead::infer(InferencePass& pass, Tensors inputs, Tensors /*outputs*/,
                     const Saved& saved) const {
  losses(pass.pass, inputs[0], saved, pass.row_losses, pass.logits);
}

void BertHead::losses(Pass& pass, const Tensor& x, const Saved& saved, const Tensor& row_losses,
                      const Tensor& last_logits) const {
  const WorkspaceScope scope(pass.ops.workspace);
  Tensor hidden = x;
  if (norm_) {
    hidden = pass.scratch_stream(config_.dtype, config_.hidden);
    norm_->forward(pass, hidden, x, saved);
  }
  if (binary_) {
    binary_->pooler.forward(pass, hidden, saved);
    binary_loss(pass, saved);
  }
  const Tensor activated = pass.scratch_stream(config_.dtype, config_.hidden);
  dense_.forward(pass, saved[dense_output_], hidden,
                 {.activated = activated.rows(),
                  .bias = pass.weights[dense_.bias()],
                  .kind = ops::ActivationKind::kGeluErf});
  projection_.losses(pass, entry_.forward(pass, activated, saved), saved, row_losses, last_logits);
}

void BertHead::binary_loss(Pass& pass, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const DType full = full_precision(config_.dtype);
  const std::int64_t samples = pass.shape.micro_batch;
  const Tensor labels = pass.batch[binary_->labels].reshape({samples});
  const Tensor mask = pass.scratch(full, {samples});
  const Tensor logits = pass.scratch(full, {samples, kClasses});
  binary_->classes.forward(pass, logits, binary_->pooler.pooled(saved));
  ops::label_mask(pass.ops, {.mask = mask, .labels = labels});
  class_losses(pass, pass.losses[kBinaryLoss], logits, labels, mask, saved[binary_->dlogits]);
}

Tensor BertHead::hidden_again(Pass& pass, const Tensor& x, const Saved& saved) const {
  if (!norm_) return x;
  const Tensor hidden = pass.scratch_stream(config_.dtype, config_.hidden);
  norm_->apply(pass, hidden, x, saved);
  return hidden;
}

Tensor BertHead::activated_again(Pass& pass, const Saved& saved) const {
  const Tensor activated = pass.scratch_stream(config_.dtype, config_.hidden);
  ops::bias_activation_forward(pass.ops, {.y = activated.rows(),
                                          .x = saved[dense_output_].rows(),
                                          .bias = pass.weights[dense_.bias()],
                                          .kind = ops::ActivationKind::kGeluErf});
  return activated;
}

void BertHead::to_input(Pass& pass, const Tensor& dx, const Tensor& dactivated, const Tensor& x,
                        const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor ddense = saved[ddense_output_];
  ops::bias_activation_backward(pass.ops, {.dx = ddense.rows(),
                                           .dy = dactivated.rows(),
                                           .x = saved[dense_output_].rows(),
                                           .bias = pass.weights[dense_.bias()],
                                           .kind = ops::ActivationKind::kGeluErf});
  const Tensor dhidden = norm_ ? pass.scratch_stream(config_.dtype, config_.hidden) : dx;
  dense_.backward_input(pass, dhidden, ddense);
  if (binary_) {
    const Tensor dlogits = saved[binary_->dlogits];
    const Tensor dpooled = pass.scratch(config_.dtype, {dlogits.shape[0], config_.hidden});
    binary_->classes.backward_input(pass, dpooled, dlogits);
    binary_->pooler.backward_input(pass, dhidden, dpooled, saved);
  }
  if (norm_) norm_->backward_input(pass, dx, dhidden, x, {}, saved);
}

void BertHead::other_weights(Pass& pass, const Tensor& x, const Saved& saved,
                             const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  dense_.backward_weight(pass, saved[ddense_output_],
                         dense_.trains_weight() ? hidden_again(pass, x, saved) : Tensor{},
                         gradients);
  if (norm_) norm_->backward_weight(pass, saved, gradients);
  if (!binary_) return;
  binary_->classes.backward_weight(pass, saved[binary_->dlogits], binary_->pooler.pooled(saved),
                                   gradients);
  binary_->pooler.backward_weight(pass, saved, gradients);
}

void BertHead::backward_input(Pass& pass, Tensors inputs, Tensors /*output_gradients*/,
                              Tensors input_gradients, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  BodyCall call{.pass = pass, .saved = saved};
  const Tensor dactivated = pass.scratch_stream(config_.dtype, config_.hidden);
  entry_.backward_input(call, projection_, dactivated, activated_again(pass, saved), {});
  to_input(pass, input_gradients[0], dactivated, inputs[0], saved);
}

void BertHead::backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                               const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  BodyCall call{.pass = pass, .saved = saved};
  entry_.backward_weight(call, projection_, activated_again(pass, saved), gradients);
  other_weights(pass, inputs[0], saved, gradients);
}

void BertHead::backward(Pass& pass, Tensors inputs, Tensors output_gradients,
                        Tensors input_gradients, const Saved& saved,
                        const Gradients& gradients) const {
  if (!pass.region.overlaps()) {
    return Unit::backward(pass, inputs, output_gradients, input_gradients, saved, gradients);
  }
  const WorkspaceScope scope(pass.ops.workspace);
  BodyCall call{.pass = pass, .saved = saved};
  const Tensor dactivated = pass.scratch_stream(config_.dtype, config_.hidden);
  entry_.backward(call, projection_, dactivated, activated_again(pass, saved), {}, gradients);
  to_input(pass, input_gradients[0], dactivated, inputs[0], saved);
  other_weights(pass, inputs[0], saved, gradients);
}

}  // namespace phalanx::nn
