#include "phalanx/nn/sublayer.h"

#include "phalanx/ops/dropout.h"

namespace phalanx::nn {

Sublayer::Sublayer(const Norm& norm, std::unique_ptr<SublayerBody> body, SavedSlots& slots,
                   const std::string& name, std::int64_t layer, const TransformerConfig& config)
    : config_(config),
      layer_(layer),
      entry_(config.norm_place == NormPlace::kPre ? std::optional(norm) : std::nullopt, config),
      post_norm_(config.norm_place == NormPlace::kPost ? std::optional(norm) : std::nullopt),
      body_(std::move(body)),
      exit_gradient_(slots.add_rows(name + " gradient", config.dtype, config.hidden,
                                    Born::kInputGradient, last_reader_if(body_->exit_trains()))) {
  if (!is_post()) return;
  PHALANX_CHECK(config.stream_dtype() == config.dtype, "post-norm layers with an fp32 residual");
  sum_ = slots.add_stream(name + " and residual", config.dtype, config.hidden, Born::kForward,
                          LastReader::kInputGradient);
}

Dropout Sublayer::dropout(const Pass& pass) const {
  return config_.hidden_dropout_at(layer_, body_->exit_dropout(), pass.training);
}

void Sublayer::forward(BodyCall call, const Tensor& out, const Tensor& x) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor entered = entry_.forward(pass, x, call.saved);
  const Tensor y = entry_.is_stream() ? pass.scratch_rows(config_.dtype, config_.hidden) : entered;
  body_->forward(call, y, entered);
  pass.finish(pass.region.leave(pass.ops, y));
  ops::bias_dropout_residual(pass.ops, {.out = is_post() ? call.saved[sum_] : out,
                                        .x = pass.region.own(y),
                                        .bias = pass.weights.if_any(body_->exit_bias()),
                                        .residual = x,
                                        .dropout = dropout(pass),
                                        .rows = pass.stream_rows()});
  if (is_post()) post_norm_->forward(pass, out, call.saved[sum_], call.saved);
}

void Sublayer::recompute(BodyCall call, const Tensor& x) const {
  const WorkspaceScope scope(call.pass.ops.workspace);
  if (is_post()) {
    // Backward also reads what forward writes last: the norm's input and statistics.
    forward(call, call.pass.scratch_stream(config_.dtype, config_.hidden), x);
  } else {
    body_->recompute(call, entry_.forward(call.pass, x, call.saved));
  }
}

Tensor Sublayer::backward_to_entry(BodyCall& call, const Tensor& dout) const {
  Pass& pass = call.pass;
  Tensor dsum = dout;
  if (is_post()) {
    dsum = pass.scratch_stream(config_.dtype, config_.hidden);
    post_norm_->backward_input(pass, dsum, dout, call.saved[sum_], {}, call.saved);
  }
  call.exit_gradient = call.saved[exit_gradient_];
  ops::dropout_backward(pass.ops, {.dx = pass.region.own(call.exit_gradient),
                                   .dout = dsum,
                                   .dropout = dropout(pass),
                                   .rows = pass.stream_rows()});
  pass.finish(pass.region.enter(pass.ops, call.exit_gradient));
  body_->backward_to_entry(call);
  return dsum;
}

void Sublayer::backward_input(BodyCall call, const Tensor& dx, const Tensor& dout,
                              const Tensor& x) const {
  const WorkspaceScope scope(call.pass.ops.workspace);
  const Tensor dsum = backward_to_entry(call, dout);
  entry_.backward_input(call, *body_, dx, x, dsum);
}

void Sublayer::backward_weight(BodyCall call, const Tensor& x, const Gradients& gradients) const {
  call.exit_gradient = call.saved[exit_gradient_];
  entry_.backward_weight(call, *body_, x, gradients);
  if (is_post()) post_norm_->backward_weight(call.pass, call.saved, gradients);
}

void Sublayer::backward(BodyCall call, const Tensor& dx, const Tensor& dout, const Tensor& x,
                        const Gradients& gradients) const {
  const WorkspaceScope scope(call.pass.ops.workspace);
  const Tensor dsum = backward_to_entry(call, dout);
  entry_.backward(call, *body_, dx, x, dsum, gradients);
  if (is_post()) post_norm_->backward_weight(call.pass, call.saved, gradients);
}

}  // namespace phalanx::nn
