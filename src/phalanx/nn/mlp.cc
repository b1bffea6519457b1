#include "phalanx/nn/mlp.h"

namespace phalanx::nn {

namespace {

std::int64_t fc1_width(const TransformerConfig& config) {
  return (config.gated ? 2 : 1) * config.ffn_hidden;
}

// Of a gated fc1, [gate; up], a rank has its part of both.
std::vector<RowRange> fc1_features(const TransformerConfig& config) {
  if (!config.gated) return {};
  const std::int64_t part = config.local_ffn_hidden();
  const std::int64_t first = config.tensor.rank * part;
  return {{first, part}, {config.ffn_hidden + first, part}};
}

}  // namespace

Mlp::Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& prefix, const TransformerConfig& config)
    : config_(config),
      fc1_(table, owned, prefix + ".mlp.linear_fc1", fc1_width(config), config.hidden, config,
           config.init_deviation, Linear::Cut::kColumn,
           bias_if(config.linear_bias, Linear::Bias::kByCaller), fc1_features(config)),
      fc2_(table, owned, prefix + ".mlp.linear_fc2", config.hidden, config.ffn_hidden, config,
           config.exit_deviation(), Linear::Cut::kRow,
           bias_if(config.linear_bias, Linear::Bias::kByCaller)) {
  PHALANX_CHECK(config.ffn_hidden % config.tensor.size == 0,
                "{} features of an MLP on {} tensor-parallel ranks", config.ffn_hidden,
                config.tensor.size);
  const std::int64_t width = fc1_width(config) / config.tensor.size;
  fc1_output_ = slots.add_rows("fc1 output", config.dtype, width, Born::kForward,
                               last_reader_if(fc2_.trains_weight()));
  dfc1_output_ = slots.add_rows("fc1 output gradient", config.dtype, width, Born::kInputGradient,
                                last_reader_if(fc1_.trains()));
}

Tensor Mlp::activated_again(Pass& pass, const Saved& saved) const {
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  const Tensor x = saved[fc1_output_].rows();
  const Tensor bias = pass.weights.if_any(fc1_.bias());
  if (config_.gated) {
    ops::gated_activation_forward(
        pass.ops, {.y = activated.rows(), .x = x, .bias = bias, .kind = config_.activation});
  } else {
    ops::bias_activation_forward(
        pass.ops, {.y = activated.rows(), .x = x, .bias = bias, .kind = config_.activation});
  }
  return activated;
}

void Mlp::forward(BodyCall& call, const Tensor& y, const Tensor& entered) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  if (config_.gated) {
    fc1_.forward(pass, call.saved[fc1_output_], entered);
    fc2_.forward(pass, y, activated_again(pass, call.saved));
    return;
  }
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  fc1_.forward(pass, call.saved[fc1_output_], entered,
               {.activated = activated.rows(),
                .bias = pass.weights.if_any(fc1_.bias()),
                .kind = config_.activation});
  fc2_.forward(pass, y, activated);
}

void Mlp::recompute(BodyCall& call, const Tensor& entered) const {
  fc1_.forward(call.pass, call.saved[fc1_output_], entered);
}

void Mlp::backward_to_entry(BodyCall& call) const {
  Pass& pass = call.pass;
  const Tensor x = call.saved[fc1_output_].rows();
  const Tensor dx = call.saved[dfc1_output_];
  const Tensor bias = pass.weights.if_any(fc1_.bias());
  if (!config_.gated) {
    fc2_.backward_input(pass, dx, call.exit_gradient,
                        {.x = x, .bias = bias, .kind = config_.activation});
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dactivated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  fc2_.backward_input(pass, dactivated, call.exit_gradient);
  ops::gated_activation_backward(
      pass.ops,
      {.dx = dx.rows(), .dy = dactivated.rows(), .x = x, .bias = bias, .kind = config_.activation});
}

void Mlp::entry_input_gradient(BodyCall& call, const Tensor& dentered) const {
  fc1_.backward_input(call.pass, dentered, call.saved[dfc1_output_]);
}

void Mlp::entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                const Gradients& gradients) const {
  fc1_.backward_weight(call.pass, call.saved[dfc1_output_], entered, gradients);
}

void Mlp::exit_weight_gradient(BodyCall& call, const Gradients& gradients) const {
  if (!fc2_.trains()) return;
  const WorkspaceScope scope(call.pass.ops.workspace);
  fc2_.backward_weight(call.pass, call.exit_gradient,
                       fc2_.trains_weight() ? activated_again(call.pass, call.saved) : Tensor{},
                       gradients);
}

Sublayer mlp_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                      const std::string& prefix, std::int64_t layer,
                      const TransformerConfig& config) {
  const bool pre = config.norm_place == NormPlace::kPre;
  const Norm norm(table, owned, slots,
                  prefix + (pre ? ".pre_mlp_layernorm" : ".post_mlp_layernorm"), config);
  return {norm,  std::make_unique<Mlp>(table, owned, slots, prefix, config),
          slots, "fc2 output",
          layer, config};
}

}  // namespace phalanx::nn
