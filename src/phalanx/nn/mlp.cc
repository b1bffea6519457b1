#include "phalanx/nn/mlp.h"

#include <cmath>

namespace phalanx::nn {

Mlp::Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& prefix, std::int64_t layer, const TransformerConfig& config)
    : config_(config),
      layer_(layer),
      norm_(table, owned, slots, prefix + ".pre_mlp_layernorm", config.hidden, config.dtype,
            config.norm_epsilon),
      fc1_(table, owned, prefix + ".mlp.linear_fc1", config.ffn_hidden, config.hidden, config.dtype,
           config.init_deviation, Linear::Bias::kByCaller),
      fc2_(table, owned, prefix + ".mlp.linear_fc2", config.hidden, config.ffn_hidden, config.dtype,
           config.init_deviation / std::sqrt(2.0 * static_cast<double>(config.num_layers)),
           Linear::Bias::kByCaller) {
  fc1_output_ = slots.add_rows("fc1 output", config.dtype, config.ffn_hidden, Born::kForward,
                               LastReader::kWeightGradient);
  dfc1_output_ = slots.add_rows("fc1 output gradient", config.dtype, config.ffn_hidden,
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

void Mlp::forward(Pass& pass, const Tensor& out, const Tensor& x, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor y = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.forward(pass, y, x, saved);
  fc1_.forward(pass, saved[fc1_output_], y);
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.ffn_hidden);
  activation(pass, activated, saved);
  fc2_.forward(pass, y, activated);
  ops::bias_dropout_residual(pass.ops, {.out = out,
                                        .x = y,
                                        .bias = pass.weights[fc2_.bias()],
                                        .residual = x,
                                        .dropout = dropout(pass),
                                        .rows = pass.batch.rows});
}

void Mlp::backward_input(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                         const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dfc1 = saved[dfc1_output_];
  ops::dropout_backward(
      pass.ops,
      {.dx = saved[dfc2_output_], .dout = dout, .dropout = dropout(pass), .rows = pass.batch.rows});
  fc2_.backward_input(pass, dfc1, saved[dfc2_output_]);
  ops::bias_gelu_backward(pass.ops, {.dx = dfc1.rows(),
                                     .dy = dfc1.rows(),
                                     .x = saved[fc1_output_].rows(),
                                     .bias = pass.weights[fc1_.bias()],
                                     .kind = config_.gelu});
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  fc1_.backward_input(pass, dnorm, dfc1);
  norm_.backward_input(pass, dx, dnorm, x, dout, saved);
}

void Mlp::backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                          const Gradients& gradients) const {
  {
    const WorkspaceScope scope(pass.ops.workspace);
    const Tensor activated = pass.scratch_rows(config_.dtype, config_.ffn_hidden);
    activation(pass, activated, saved);
    fc2_.backward_weight(pass, saved[dfc2_output_], activated, gradients);
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, normed, x, saved);
  fc1_.backward_weight(pass, saved[dfc1_output_], normed, gradients);
  norm_.backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
