#include "phalanx/nn/stream_sublayer.h"

#include "phalanx/ops/dropout.h"

namespace phalanx::nn {

StreamSublayer::StreamSublayer(const Norm& norm, std::unique_ptr<StreamBody> body,
                               SavedSlots& slots, const std::string& name, std::int64_t layer,
                               const TransformerConfig& config)
    : config_(config),
      layer_(layer),
      norm_(norm),
      body_(std::move(body)),
      exit_gradient_(slots.add_stream(name + " gradient", config.dtype, config.hidden,
                                      Born::kInputGradient, last_reader_if(body_->trains()))) {
  PHALANX_CHECK(config.norm_place == NormPlace::kPre, "{} behind a norm", name);
}

Dropout StreamSublayer::dropout(const Pass& pass) const {
  return config_.hidden_dropout_at(layer_, DropoutPlace::kMlpOutput, pass.training);
}

void StreamSublayer::forward(BodyCall call, const Tensor& out, const Tensor& x) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = scratch(pass);
  const Tensor y = scratch(pass);
  norm_.forward(pass, normed, x, call.saved);
  body_->forward(call, y, normed);
  ops::bias_dropout_residual(pass.ops, {.out = out,
                                        .x = y,
                                        .bias = {},
                                        .residual = x,
                                        .dropout = dropout(pass),
                                        .rows = pass.stream_rows()});
}

void StreamSublayer::recompute(BodyCall call, const Tensor& x) const {
  const WorkspaceScope scope(call.pass.ops.workspace);
  const Tensor normed = scratch(call.pass);
  norm_.forward(call.pass, normed, x, call.saved);
  body_->recompute(call, normed);
}

void StreamSublayer::backward_input(BodyCall call, const Tensor& dx, const Tensor& dout,
                                    const Tensor& x) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  call.exit_gradient = call.saved[exit_gradient_];
  ops::dropout_backward(pass.ops, {.dx = call.exit_gradient,
                                   .dout = dout,
                                   .dropout = dropout(pass),
                                   .rows = pass.stream_rows()});
  const Tensor dnormed = scratch(pass);
  Tensor normed;
  if (body_->backward_input_reads(pass)) {
    normed = scratch(pass);
    norm_.apply(pass, normed, x, call.saved);
  }
  body_->backward_input(call, dnormed, normed);
  norm_.backward_input(pass, dx, dnormed, x, dout, call.saved);
}

void StreamSublayer::backward_weight(BodyCall call, const Tensor& x,
                                     const Gradients& gradients) const {
  Pass& pass = call.pass;
  call.exit_gradient = call.saved[exit_gradient_];
  if (body_->trains()) {
    const WorkspaceScope scope(pass.ops.workspace);
    const Tensor normed = scratch(pass);
    norm_.apply(pass, normed, x, call.saved);
    body_->backward_weight(call, normed, gradients);
  }
  norm_.backward_weight(pass, call.saved, gradients);
}

}  // namespace phalanx::nn
