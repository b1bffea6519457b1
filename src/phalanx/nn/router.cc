#include "phalanx/nn/router.h"

#include "phalanx/ops/balance.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/linear.h"

namespace phalanx::nn {
namespace {

ParamSpec weight_spec(const std::string& name, const TransformerConfig& config) {
  ParamSpec spec = whole_parameter(name, {config.experts.experts, config.hidden}, config.dtype,
                                   {.kind = Initialiser::Kind::kNormal,
                                    .value = config.init_deviation,
                                    .row_copies = config.experts.row_copies});
  spec.summed_over = sums_of_stream(config.tensor);
  return spec;
}

ParamId add_bias(ParamTable& table, const std::string& name, const TransformerConfig& config) {
  if (name.empty() || !config.experts.bias) return -1;
  return table.add_state(whole_parameter(name + ".expert_bias", {config.experts.experts},
                                         full_precision(config.dtype),
                                         {Initialiser::Kind::kConstant, 0.0}));
}

RouterId add_router(ParamTable& table, const std::string& name, ParamId bias,
                    const ExpertSettings& settings) {
  if (name.empty()) return -1;
  return table.add_router({.name = name,
                           .experts = settings.experts,
                           .chosen = settings.chosen,
                           .bias = bias,
                           .bias_rate = settings.bias_rate});
}

// A number for each token and each of `width` experts.
SavedSlot slot_of_tokens(std::string name, DType dtype, std::int64_t width, Born born,
                         LastReader last) {
  return {.name = std::move(name),
          .dtype = dtype,
          .born = born,
          .last_reader = last,
          .shape =
              [width](const BatchShape& batch) {
                return Shape{batch.stream_rows(), width};
              },
          .is_kept = born == Born::kForward};
}

}  // namespace

Router::Router(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
               const std::string& weight, const TransformerConfig& config, const std::string& name,
               std::int64_t layer)
    : config_(config),
      weight_(table.add(weight_spec(weight, config))),
      bias_(add_bias(table, name, config)),
      id_(add_router(table, name, bias_, config.experts)),
      layer_(layer),
      trains_(table.trains(weight_)),
      losses_(slots, id_, config) {
  owned.push_back(weight_);
  const ExpertSettings& settings = config.experts;
  const DType full = full_precision(config.dtype);
  logits_ = slots.add(slot_of_tokens("router logits", full, settings.experts, Born::kForward,
                                     LastReader::kInputGradient));
  experts_ = slots.add(slot_of_tokens("chosen experts", DType::kI32, settings.chosen,
                                      Born::kForward, LastReader::kWeightGradient));
  probabilities_ = slots.add(slot_of_tokens("probabilities of experts", full, settings.chosen,
                                            Born::kForward, LastReader::kWeightGradient));
  dlogits_ = slots.add(slot_of_tokens("router logit gradient", full, settings.experts,
                                      Born::kInputGradient, last_reader_if(trains_)));
}

Tensor Router::full(Pass& pass, const Tensor& x) const {
  const DType full = full_precision(config_.dtype);
  if (x.dtype == full) return x;
  const Tensor copy = pass.scratch(full, x.shape);
  ops::copy(pass.ops, {.destination = copy, .source = x});
  return copy;
}

Tensor Router::input(Pass& pass, const Tensor& x) const {
  const Tensor in = full(pass, x);
  if (!jitters(pass)) return in;
  // A copy may be changed in place.
  const Tensor out = x.dtype == in.dtype ? pass.scratch(in.dtype, in.shape) : in;
  jitter(pass, out, in);
  return out;
}

void Router::jitter(Pass& pass, const Tensor& y, const Tensor& x) const {
  const Shape stream{pass.shape.stream_sequence(), pass.shape.micro_batch, config_.hidden};
  ops::jitter(pass.ops, {.y = y.reshape(stream),
                         .x = x.reshape(stream),
                         .epsilon = config_.experts.input_jitter,
                         .key = config_.dropout_key,
                         .site = config_.dropout_site(layer_, DropoutPlace::kRouterInput),
                         .rows = pass.stream_rows()});
}

void Router::choose(Pass& pass, const Tensor& logits, const Saved& saved) const {
  ops::RouterForward forward{.experts = experts(saved),
                             .probabilities = probabilities(saved),
                             .logits = logits,
                             .bias = pass.weights.if_any(bias_),
                             .rule = config_.experts.rule};
  switch (config_.experts.choice) {
    case ExpertChoice::kScores:
      break;
    case ExpertChoice::kSinkhorn:
      if (!pass.training) break;
      ops::sinkhorn_choice(pass.ops, {.experts = experts(saved), .logits = logits});
      forward.choice = ops::RouterChoice::kGiven;
      break;
    case ExpertChoice::kForced:
      forward.choice = ops::RouterChoice::kTurns;
      break;
  }
  ops::router_forward(pass.ops, forward);
}

void Router::count(Pass& pass, const Saved& saved) const {
  if (id_ < 0 || pass.router_counts.given.empty()) return;
  ops::expert_counts(pass.ops, {.counts = pass.router_counts.given[static_cast<std::size_t>(id_)],
                                .experts = experts(saved),
                                .accumulate = true});
}

void Router::drop(Pass& pass, const Saved& saved) const {
  const ExpertSettings& settings = config_.experts;
  if (settings.capacity_factor <= 0.0) return;
  const std::int64_t tokens = experts(saved).shape[0];
  ops::router_capacity(pass.ops,
                       {.experts = experts(saved),
                        .probabilities = probabilities(saved),
                        .all_experts = settings.experts,
                        .capacity = ops::expert_capacity(tokens, settings.chosen, settings.experts,
                                                         settings.capacity_factor),
                        .policy = settings.drop_policy});
}

void Router::forward(Pass& pass, const Tensor& x, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor& logits = saved[logits_];
  ops::linear_forward(
      pass.ops,
      {.y = logits, .x = input(pass, x), .weight = full(pass, pass.weights[weight_]), .bias = {}});
  choose(pass, logits, saved);
  losses_.add(pass, logits, saved);
  drop(pass, saved);
  count(pass, saved);
}

void Router::backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities,
                            const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const RouterLosses::Gradient losses = losses_.gradient(pass, saved);
  ops::router_backward(pass.ops, {.dlogits = saved[dlogits_],
                                  .dprobabilities = dprobabilities,
                                  .logits = saved[logits_],
                                  .experts = experts(saved),
                                  .rule = config_.experts.rule,
                                  .dscores = losses.dscores,
                                  .z_loss = losses.z_loss,
                                  .scale = pass.loss_settings.loss_scale});
  const Tensor by_router = pass.scratch(dx.dtype, dx.shape);
  ops::linear_input_gradient(
      pass.ops,
      {.dx = by_router, .dy = saved[dlogits_], .weight = full(pass, pass.weights[weight_])});
  if (jitters(pass)) jitter(pass, by_router, by_router);
  ops::accumulate(pass.ops, {.destination = dx, .source = by_router});
}

void Router::backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                             const Gradients& gradients) const {
  if (!trains_) return;
  const WorkspaceScope scope(pass.ops.workspace);
  const bool adds = gradients.is_written(weight_);
  gradients.mark_written(weight_);
  ops::linear_weight_gradient(pass.ops, {.dweight = gradients[weight_],
                                         .dy = saved[dlogits_],
                                         .x = input(pass, x),
                                         .accumulate = adds});
}

}  // namespace phalanx::nn
