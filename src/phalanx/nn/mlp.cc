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

// A part of this rank's fc1, or all.
std::vector<Adapters::Part> fc1_parts(const TransformerConfig& config) {
  const std::int64_t own = config.local_ffn_hidden();
  const std::int64_t first = config.tensor.rank * own;
  std::vector<RowRange> features = fc1_features(config);
  if (!config.gated) features = {{first, own}};
  const Adapters::Part all{.part = AdapterPart::kFc1,
                           .features = fc1_width(config),
                           .ranges = std::move(features),
                           .inner = fc1_width(config) / config.tensor.size};
  if (!config.gated) return {all};
  Adapters::Part gate{.part = AdapterPart::kGate,
                      .features = config.ffn_hidden,
                      .ranges = {{first, own}},
                      .slots = 2,
                      .inner = own};
  Adapters::Part up = gate;
  up.part = AdapterPart::kUp;
  up.first = 1;
  return {gate, up, all};
}

}  // namespace

Mlp::Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& prefix, std::int64_t layer, const TransformerConfig& config)
    : config_(config),
      fc1_(table, owned, prefix + ".mlp.linear_fc1", fc1_width(config), config.hidden, config,
           config.init_deviation, Linear::Cut::kColumn,
           bias_if(config.linear_bias, Linear::Bias::kByCaller), fc1_features(config)),
      fc1_adapters_(table, owned, slots, prefix + ".mlp.linear_fc1", layer, config.hidden,
                    Linear::Cut::kColumn, fc1_parts(config), config),
      fc2_(table, owned, prefix + ".mlp.linear_fc2", config.hidden, config.ffn_hidden, config,
           config.exit_deviation(), Linear::Cut::kRow,
           bias_if(config.linear_bias, Linear::Bias::kByCaller)),
      fc2_adapters_(
          table, owned, slots, prefix + ".mlp.linear_fc2", layer, config.ffn_hidden,
          Linear::Cut::kRow,
          {{.part = AdapterPart::kDown, .features = config.hidden, .inner = config.hidden}},
          config) {
  PHALANX_CHECK(config.ffn_hidden % config.tensor.size == 0,
                "{} features of an MLP on {} tensor-parallel ranks", config.ffn_hidden,
                config.tensor.size);
  const std::int64_t width = fc1_width(config) / config.tensor.size;
  fc1_output_ = slots.add_rows("fc1 output", config.dtype, width, Born::kForward,
                               last_reader_if(exit_reads_input()));
  dfc1_output_ =
      slots.add_rows("fc1 output gradient", config.dtype, width, Born::kInputGradient,
                     last_reader_if(fc1_.trains() || fc1_adapters_.reads_output_gradient()));
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
  // The product and the activation are one op, unless something is added between them.
  const bool is_fused = !config_.gated && fc1_adapters_.empty();
  Tensor activated;
  if (is_fused) {
    activated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
    fc1_.forward(pass, call.saved[fc1_output_], entered,
                 {.activated = activated.rows(),
                  .bias = pass.weights.if_any(fc1_.bias()),
                  .kind = config_.activation});
  } else {
    enter(call, entered);
    activated = activated_again(pass, call.saved);
  }
  fc2_adapters_.enter(pass, activated, call.saved);
  fc2_.forward(pass, y, activated);
  fc2_adapters_.add(pass, y, call.saved);
}

void Mlp::enter(BodyCall& call, const Tensor& entered) const {
  fc1_.forward(call.pass, call.saved[fc1_output_], entered);
  fc1_adapters_.forward(call.pass, call.saved[fc1_output_], entered, call.saved);
}

void Mlp::recompute(BodyCall& call, const Tensor& entered) const {
  enter(call, entered);
  if (fc2_adapters_.empty()) return;
  const WorkspaceScope scope(call.pass.ops.workspace);
  fc2_adapters_.enter(call.pass, activated_again(call.pass, call.saved), call.saved);
}

void Mlp::backward_to_entry(BodyCall& call) const {
  Pass& pass = call.pass;
  const Tensor x = call.saved[fc1_output_].rows();
  const Tensor dx = call.saved[dfc1_output_];
  const Tensor bias = pass.weights.if_any(fc1_.bias());
  if (!config_.gated && fc2_adapters_.empty()) {
    fc2_.backward_input(pass, dx, call.exit_gradient,
                        {.x = x, .bias = bias, .kind = config_.activation});
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dactivated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  fc2_.backward_input(pass, dactivated, call.exit_gradient);
  fc2_adapters_.backward_input(pass, dactivated, call.exit_gradient, call.saved);
  const Tensor dy = dactivated.rows();
  if (config_.gated) {
    ops::gated_activation_backward(
        pass.ops, {.dx = dx.rows(), .dy = dy, .x = x, .bias = bias, .kind = config_.activation});
  } else {
    ops::bias_activation_backward(
        pass.ops, {.dx = dx.rows(), .dy = dy, .x = x, .bias = bias, .kind = config_.activation});
  }
}

void Mlp::entry_input_gradient(BodyCall& call, const Tensor& dentered) const {
  fc1_.backward_input(call.pass, dentered, call.saved[dfc1_output_]);
  fc1_adapters_.backward_input(call.pass, dentered, call.saved[dfc1_output_], call.saved);
}

void Mlp::entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                const Gradients& gradients) const {
  fc1_.backward_weight(call.pass, call.saved[dfc1_output_], entered, gradients);
  fc1_adapters_.backward_weight(call.pass, call.saved[dfc1_output_], entered, call.saved,
                                gradients);
}

void Mlp::exit_weight_gradient(BodyCall& call, const Gradients& gradients) const {
  if (!exit_trains() && !exit_reads_input()) return;
  const WorkspaceScope scope(call.pass.ops.workspace);
  const Tensor x = exit_reads_input() ? activated_again(call.pass, call.saved) : Tensor{};
  fc2_.backward_weight(call.pass, call.exit_gradient, x, gradients);
  fc2_adapters_.backward_weight(call.pass, call.exit_gradient, x, call.saved, gradients);
}

Sublayer mlp_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                      const std::string& prefix, std::int64_t layer,
                      const TransformerConfig& config) {
  const bool pre = config.norm_place == NormPlace::kPre;
  const Norm norm(table, owned, slots,
                  prefix + (pre ? ".pre_mlp_layernorm" : ".post_mlp_layernorm"), config);
  return {norm,  std::make_unique<Mlp>(table, owned, slots, prefix, layer, config),
          slots, "fc2 output",
          layer, config};
}

}  // namespace phalanx::nn
