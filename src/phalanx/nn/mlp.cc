#include "phalanx/nn/mlp.h"

#include <cmath>

namespace phalanx::nn {

Mlp::Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& prefix, std::int64_t layer, const TransformerConfig& config)
    : config_(config),
      layer_(layer),
      norm_(table, owned, slots, prefix + ".pre_mlp_layernorm", config),
      fc1_(table, owned, prefix + ".mlp.linear_fc1", config.ffn_hidden, config.hidden, config,
           config.init_deviation, Linear::Cut::kColumn, Linear::Bias::kByCaller),
      fc2_(table, owned, prefix + ".mlp.linear_fc2", config.hidden, config.ffn_hidden, config,
           config.init_deviation / std::sqrt(2.0 * static_cast<double>(config.num_layers)),
           Linear::Cut::kRow, Linear::Bias::kByCaller) {
  fc1_output_ = slots.add_rows("fc1 output", config.dtype, config.local_ffn_hidden(),
                               Born::kForward, LastReader::kWeightGradient);
  dfc1_output_ = slots.add_rows("fc1 output gradient", config.dtype, config.local_ffn_hidden(),
                                Born::kInputGradient, LastReader::kWeightGradient);
  dfc2_output_ = slots.add_rows("fc2 output gradient", config.dtype, config.hidden,
                                Born::kInputGradient, LastReader::kWeightGradient);
}

Dropout Mlp::dropout(const Pass& pass) const {
  return {.probability = pass.training ? config_.hidden_dropout : 0.0,
          .key = config_.dropout_key,
          .site = dropout_site(static_cast<std::uint32_t>(layer_), DropoutPlace::kMlpOutput)};
}

void Mlp::activation(Pass& pass, const Tensor& y, const Saved& saved) const {
  ops::bias_gelu_forward(pass.ops, {.y = y.rows(),
                                    .x = saved[fc1_output_].rows(),
                                    .bias = pass.weights[fc1_.bias()],
                                    .kind = config_.gelu});
}

void Mlp::recompute(Pass& pass, const Tensor& x, const Saved& saved) const {
  forward_to_fc1(pass, x, saved, {});
}

void Mlp::forward_to_fc1(Pass& pass, const Tensor& x, const Saved& saved,
                         const ops::LinearForward::Activation& activation) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.forward(pass, pass.region.own(normed), x, saved);
  pass.finish(pass.region.enter(pass.ops, normed));
  fc1_.forward(pass, saved[fc1_output_], normed, activation);
}

void Mlp::forward(Pass& pass, const Tensor& out, const Tensor& x, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  forward_to_fc1(
      pass, x, saved,
      {.activated = activated.rows(), .bias = pass.weights[fc1_.bias()], .kind = config_.gelu});
  const Tensor y = pass.scratch_rows(config_.dtype, config_.hidden);
  fc2_.forward(pass, y, activated);
  pass.finish(pass.region.leave(pass.ops, y));
  ops::bias_dropout_residual(pass.ops, {.out = out,
                                        .x = pass.region.own(y),
                                        .bias = pass.weights[fc2_.bias()],
                                        .residual = x,
                                        .dropout = dropout(pass),
                                        .rows = pass.stream_rows()});
}

void Mlp::backward_to_fc1(Pass& pass, const Tensor& dout, const Saved& saved) const {
  const Tensor dfc1 = saved[dfc1_output_];
  const Tensor dfc2 = saved[dfc2_output_];
  ops::dropout_backward(pass.ops, {.dx = pass.region.own(dfc2),
                                   .dout = dout,
                                   .dropout = dropout(pass),
                                   .rows = pass.stream_rows()});
  pass.finish(pass.region.enter(pass.ops, dfc2));
  fc2_.backward_input(
      pass, dfc1, dfc2,
      {.x = saved[fc1_output_].rows(), .bias = pass.weights[fc1_.bias()], .kind = config_.gelu});
}

void Mlp::backward_fc2_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  activation(pass, activated, saved);
  fc2_.backward_weight(pass, saved[dfc2_output_], activated, gradients);
}

void Mlp::backward_input(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                         const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  backward_to_fc1(pass, dout, saved);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  fc1_.backward_input(pass, dnorm, saved[dfc1_output_]);
  pass.finish(pass.region.leave(pass.ops, dnorm));
  norm_.backward_input(pass, dx, pass.region.own(dnorm), x, dout, saved);
}

void Mlp::backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                          const Gradients& gradients) const {
  backward_fc2_weight(pass, saved, gradients);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), x, saved);
  pass.finish(pass.region.enter(pass.ops, normed));
  fc1_.backward_weight(pass, saved[dfc1_output_], normed, gradients);
  norm_.backward_weight(pass, saved, gradients);
}

void Mlp::backward(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                   const Saved& saved, const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  backward_to_fc1(pass, dout, saved);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), x, saved);
  const Work gathering = pass.region.enter(pass.ops, normed);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  fc1_.backward_input(pass, dnorm, saved[dfc1_output_]);
  const Work reducing = pass.region.leave(pass.ops, dnorm);
  backward_fc2_weight(pass, saved, gradients);
  pass.finish(gathering);
  fc1_.backward_weight(pass, saved[dfc1_output_], normed, gradients);
  pass.finish(reducing);
  norm_.backward_input(pass, dx, pass.region.own(dnorm), x, dout, saved);
  norm_.backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
