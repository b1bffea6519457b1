#include "phalanx/nn/mlp.h"

namespace phalanx::nn {

Mlp::Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& prefix, const TransformerConfig& config)
    : config_(config),
      fc1_(table, owned, prefix + ".mlp.linear_fc1", config.ffn_hidden, config.hidden, config,
           config.init_deviation, Linear::Cut::kColumn,
           bias_if(config.linear_bias, Linear::Bias::kByCaller)),
      fc2_(table, owned, prefix + ".mlp.linear_fc2", config.hidden, config.ffn_hidden, config,
           config.exit_deviation(), Linear::Cut::kRow,
           bias_if(config.linear_bias, Linear::Bias::kByCaller)) {
  fc1_output_ = slots.add_rows("fc1 output", config.dtype, config.local_ffn_hidden(),
                               Born::kForward, LastReader::kWeightGradient);
  dfc1_output_ = slots.add_rows("fc1 output gradient", config.dtype, config.local_ffn_hidden(),
                                Born::kInputGradient, LastReader::kWeightGradient);
}

void Mlp::forward(BodyPass& at, const Tensor& y, const Tensor& entered) const {
  Pass& pass = at.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  fc1_.forward(pass, at.saved[fc1_output_], entered,
               {.activated = activated.rows(),
                .bias = pass.weights.if_any(fc1_.bias()),
                .kind = config_.activation});
  fc2_.forward(pass, y, activated);
}

void Mlp::recompute(BodyPass& at, const Tensor& entered) const {
  fc1_.forward(at.pass, at.saved[fc1_output_], entered);
}

void Mlp::backward_to_entry(BodyPass& at) const {
  fc2_.backward_input(at.pass, at.saved[dfc1_output_], at.exit_gradient,
                      {.x = at.saved[fc1_output_].rows(),
                       .bias = at.pass.weights.if_any(fc1_.bias()),
                       .kind = config_.activation});
}

void Mlp::entry_input_gradient(BodyPass& at, const Tensor& dentered) const {
  fc1_.backward_input(at.pass, dentered, at.saved[dfc1_output_]);
}

void Mlp::entry_weight_gradient(BodyPass& at, const Tensor& entered,
                                const Gradients& gradients) const {
  fc1_.backward_weight(at.pass, at.saved[dfc1_output_], entered, gradients);
}

void Mlp::exit_weight_gradient(BodyPass& at, const Gradients& gradients) const {
  Pass& pass = at.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  ops::bias_activation_forward(pass.ops, {.y = activated.rows(),
                                          .x = at.saved[fc1_output_].rows(),
                                          .bias = pass.weights.if_any(fc1_.bias()),
                                          .kind = config_.activation});
  fc2_.backward_weight(pass, at.exit_gradient, activated, gradients);
}

Sublayer mlp_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                      const std::string& prefix, std::int64_t layer,
                      const TransformerConfig& config) {
  const bool pre = config.norm_place == NormPlace::kPre;
  const LayerNorm norm(table, owned, slots,
                       prefix + (pre ? ".pre_mlp_layernorm" : ".post_mlp_layernorm"), config);
  return {norm,  std::make_unique<Mlp>(table, owned, slots, prefix, config),
          slots, "fc2 output",
          layer, config};
}

}  // namespace phalanx::nn
