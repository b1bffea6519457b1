#include "phalanx/nn/expert_mlp.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

ExpertMlp::ExpertMlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                     const std::string& prefix, const TransformerConfig& config, std::int64_t layer)
    : config_(config),
      router_(table, owned, slots, prefix + ".mlp.router.weight", config, prefix + ".mlp.router",
              layer),
      experts_(table, owned, slots, prefix + ".mlp.experts", config) {
  if (config.experts.shared_ffn_hidden == 0) return;
  shared_.emplace(table, owned, slots, prefix + ".mlp.shared_experts", config);
}

void ExpertMlp::forward(BodyCall& call, const Tensor& y, const Tensor& x) const {
  if (!call.pass.recomputing) router_.forward(call.pass, x.rows(), call.saved);
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Routing choice = routing(call.saved);
  const std::unique_ptr<Dispatch> dispatch =
      experts_.begin(pass, choice, call.saved, pass.recomputing);
  // The shared expert computes while the numbers of rows are on their way to the host.
  const bool computes_early = shared_ && experts_.has_messages();
  Tensor shared;
  if (computes_early) {
    shared = pass.scratch_stream(config_.dtype, config_.hidden);
    ops::fill(pass.ops, {.x = shared, .value = 0.0});
    shared_->forward(pass, shared, x, call.saved);
  }
  experts_.forward(pass, *dispatch, y.rows(), x.rows(), choice, call.saved);
  if (computes_early) {
    ops::accumulate(pass.ops, {.destination = y, .source = shared});
  } else if (shared_) {
    shared_->forward(pass, y, x, call.saved);
  }
}

void ExpertMlp::recompute(BodyCall& call, const Tensor& x) const {
  const Routing choice = routing(call.saved);
  const std::unique_ptr<Dispatch> dispatch = experts_.begin(call.pass, choice, call.saved, true);
  if (shared_) shared_->recompute(call.pass, x, call.saved);
  experts_.recompute(call.pass, *dispatch, x.rows(), choice, call.saved);
}

void ExpertMlp::backward_input(BodyCall& call, const Tensor& dx, const Tensor& x) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const DType full = full_precision(config_.dtype);
  const bool is_full = dx.dtype == full;
  const Tensor sum = is_full ? dx : pass.scratch_stream(full, config_.hidden);
  const Tensor dprobabilities = pass.scratch(full, router_.probabilities(call.saved).shape);
  experts_.backward_input(pass, sum.rows(), dprobabilities, call.exit_gradient.rows(),
                          x ? x.rows() : x, routing(call.saved), call.saved);
  router_.backward_input(pass, sum.rows(), dprobabilities, call.saved);
  if (shared_) shared_->backward_input(pass, sum, call.exit_gradient, call.saved);
  if (!is_full) ops::copy(pass.ops, {.destination = dx, .source = sum});
}

void ExpertMlp::backward_weight(BodyCall& call, const Tensor& x, const Gradients& gradients) const {
  experts_.backward_weight(call.pass, call.exit_gradient.rows(), x.rows(), routing(call.saved),
                           call.saved, gradients);
  router_.backward_weight(call.pass, x.rows(), call.saved, gradients);
  if (shared_) shared_->backward_weight(call.pass, x, call.saved, gradients);
}

std::unique_ptr<const ResidualSublayer> expert_sublayer(
    ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& prefix,
    std::int64_t layer, const TransformerConfig& config) {
  const Norm norm(table, owned, slots, prefix + ".pre_mlp_layernorm", config);
  return std::make_unique<const StreamSublayer>(
      norm, std::make_unique<ExpertMlp>(table, owned, slots, prefix, config, layer), slots,
      "expert output", layer, config);
}

}  // namespace phalanx::nn
