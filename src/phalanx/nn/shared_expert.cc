#include "phalanx/nn/shared_expert.h"

#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/permute.h"

namespace phalanx::nn {
namespace {

// The settings that an MLP of this width would have.
TransformerConfig dense_config(TransformerConfig config) {
  config.ffn_hidden = config.experts.shared_ffn_hidden;
  return config;
}

TransformerConfig gate_config(TransformerConfig config) {
  config.experts = {
      .experts = 1, .chosen = 1, .rule = {.score = ops::RouterScore::kSigmoid}, .losses = {}};
  return config;
}

std::int64_t fc1_width(const TransformerConfig& config) {
  return (config.gated ? 2 : 1) * config.experts.shared_ffn_hidden;
}

// Of a gated fc1, [gate; up], a rank has its part of both.
std::vector<RowRange> fc1_features(const TransformerConfig& config) {
  if (!config.gated) return {};
  const std::int64_t width = config.experts.shared_ffn_hidden;
  const std::int64_t part = width / config.tensor.size;
  const std::int64_t first = config.tensor.rank * part;
  return {{first, part}, {width + first, part}};
}

// The order of rows as they are, in scratch: of one expert that computes all tokens.
struct RowOrder {
  Tensor pair_of_row, row_of_pair;
};
RowOrder row_order(Pass& pass, const Tensor& experts) {
  const RowOrder order{.pair_of_row = pass.scratch(DType::kI32, {experts.count()}),
                       .row_of_pair = pass.scratch(DType::kI32, experts.shape)};
  ops::sort_pairs(pass.ops, {.offsets = pass.scratch(DType::kI32, {2}),
                             .pair_of_row = order.pair_of_row,
                             .row_of_pair = order.row_of_pair,
                             .chosen = experts});
  return order;
}

}  // namespace

SharedExpert::SharedExpert(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                           const std::string& name, const TransformerConfig& config)
    : config_(dense_config(config)),
      fc1_(table, owned, name + ".linear_fc1", fc1_width(config), config.hidden, config,
           config.init_deviation, Linear::Cut::kColumn, Linear::Bias::kNone, fc1_features(config)),
      fc2_(table, owned, name + ".linear_fc2", config.hidden, config.experts.shared_ffn_hidden,
           config, config.exit_deviation(), Linear::Cut::kRow, Linear::Bias::kNone) {
  const std::int64_t width = fc1_width(config) / config.tensor.size;
  if (config.experts.shared_gate) {
    gate_.emplace(table, owned, slots, name + ".gate_weight", gate_config(config));
    output_ = slots.add_stream("shared expert output", config.dtype, config.hidden, Born::kForward,
                               LastReader::kInputGradient);
  }
  fc1_output_ = slots.add_rows("shared fc1 output", config.dtype, width, Born::kForward,
                               last_reader_if(fc2_.trains()));
  dfc1_output_ = slots.add_rows("shared fc1 output gradient", config.dtype, width,
                                Born::kInputGradient, last_reader_if(fc1_.trains()));
  doutput_ = slots.add_rows("shared expert gradient", config.dtype, config.hidden,
                            Born::kInputGradient, last_reader_if(fc2_.trains()));
}

Tensor SharedExpert::entered(Pass& pass, const Tensor& x) const {
  if (!config_.tensor.sequence) return x;
  const Tensor rows = pass.scratch_rows(config_.dtype, config_.hidden);
  ops::copy(pass.ops, {.destination = pass.region.own(rows), .source = x});
  pass.finish(pass.region.enter(pass.ops, rows));
  return rows;
}

Tensor SharedExpert::activated(Pass& pass, const Saved& saved) const {
  const Tensor y = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  const Tensor x = saved[fc1_output_].rows();
  if (config_.gated) {
    ops::gated_activation_forward(pass.ops,
                                  {.y = y.rows(), .x = x, .bias = {}, .kind = config_.activation});
  } else {
    ops::bias_activation_forward(pass.ops,
                                 {.y = y.rows(), .x = x, .bias = {}, .kind = config_.activation});
  }
  return y;
}

Tensor SharedExpert::output(Pass& pass, const Saved& saved) const {
  const Tensor rows = pass.scratch_rows(config_.dtype, config_.hidden);
  fc2_.forward(pass, rows, activated(pass, saved));
  pass.finish(pass.region.leave(pass.ops, rows));
  return pass.region.own(rows);
}

void SharedExpert::multiply_by_gate(Pass& pass, const Tensor& to, const Tensor& from,
                                    const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  ops::permute_rows(pass.ops, {.to = to.rows(),
                               .from = from.rows(),
                               .pair_of_row = row_order(pass, gate_->experts(saved)).pair_of_row,
                               .probabilities = gate_->probabilities(saved)});
}

void SharedExpert::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  fc1_.forward(pass, saved[fc1_output_], entered(pass, x));
  Tensor own = output(pass, saved);
  if (gate_) {
    if (!pass.recomputing) gate_->forward(pass, x.rows(), saved);
    ops::copy(pass.ops, {.destination = saved[output_], .source = own});
    multiply_by_gate(pass, own, saved[output_], saved);
  }
  ops::accumulate(pass.ops, {.destination = y, .source = own});
}

void SharedExpert::recompute(Pass& pass, const Tensor& x, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  fc1_.forward(pass, saved[fc1_output_], entered(pass, x));
  if (gate_) ops::copy(pass.ops, {.destination = saved[output_], .source = output(pass, saved)});
}

Tensor SharedExpert::gate_gradient(Pass& pass, const Tensor& dy, const Saved& saved) const {
  const Tensor& experts = gate_->experts(saved);
  const Tensor dots = pass.scratch(full_precision(config_.dtype), experts.shape);
  const WorkspaceScope scope(pass.ops.workspace);
  ops::pair_dots(pass.ops, {.dots = dots,
                            .rows = saved[output_].rows(),
                            .x = dy.rows(),
                            .row_of_pair = row_order(pass, experts).row_of_pair});
  return dots;
}

void SharedExpert::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy,
                                  const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor& doutput = saved[doutput_];
  const Tensor own = pass.region.own(doutput);
  if (gate_) {
    gate_->backward_input(pass, dx.rows(), gate_gradient(pass, dy, saved), saved);
    multiply_by_gate(pass, own, dy, saved);
  } else {
    ops::copy(pass.ops, {.destination = own, .source = dy});
  }
  pass.finish(pass.region.enter(pass.ops, doutput));
  const Tensor dactivated = pass.scratch_rows(config_.dtype, config_.local_ffn_hidden());
  fc2_.backward_input(pass, dactivated, doutput);
  const Tensor dfc1 = saved[dfc1_output_].rows();
  const Tensor x = saved[fc1_output_].rows();
  if (config_.gated) {
    ops::gated_activation_backward(
        pass.ops,
        {.dx = dfc1, .dy = dactivated.rows(), .x = x, .bias = {}, .kind = config_.activation});
  } else {
    ops::bias_activation_backward(
        pass.ops,
        {.dx = dfc1, .dy = dactivated.rows(), .x = x, .bias = {}, .kind = config_.activation});
  }
  const Tensor dentered = pass.scratch_rows(config_.dtype, config_.hidden);
  fc1_.backward_input(pass, dentered, saved[dfc1_output_]);
  pass.finish(pass.region.leave(pass.ops, dentered));
  ops::accumulate(pass.ops, {.destination = dx, .source = pass.region.own(dentered)});
}

void SharedExpert::backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                                   const Gradients& gradients) const {
  if (fc2_.trains()) {
    const WorkspaceScope scope(pass.ops.workspace);
    fc2_.backward_weight(pass, saved[doutput_], activated(pass, saved), gradients);
  }
  if (fc1_.trains()) {
    const WorkspaceScope scope(pass.ops.workspace);
    fc1_.backward_weight(pass, saved[dfc1_output_], entered(pass, x), gradients);
  }
  if (gate_) gate_->backward_weight(pass, x.rows(), saved, gradients);
}

}  // namespace phalanx::nn
