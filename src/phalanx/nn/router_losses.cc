#include "phalanx/nn/router_losses.h"

#include "phalanx/ops/balance.h"

namespace phalanx::nn {

using Kind = RouterLoss::Kind;

RouterLosses::RouterLosses(SavedSlots& slots, const TransformerConfig& config) : config_(config) {
  for (const RouterLoss& loss : config.experts.losses) {
    if (loss.kind == Kind::kLogits) {
      counts_.push_back(-1);
      continue;
    }
    counts_.push_back(slots.add({.name = "balance counts",
                                 .dtype = DType::kI32,
                                 .last_reader = LastReader::kInputGradient,
                                 .shape =
                                     [loss, experts = experts()](const BatchShape& batch) {
                                       return Shape{sequences(loss, batch), experts};
                                     },
                                 .is_kept = true}));
  }
}

double RouterLosses::factor(const RouterLoss& loss, const BatchShape& shape) const {
  const auto tokens = static_cast<double>(shape.whole_sequence() * shape.micro_batch);
  if (loss.kind == Kind::kLogits) return 1.0 / tokens;
  const auto counted = static_cast<double>(sequences(loss, shape));
  const double of_sequence = tokens / counted;
  const ExpertSettings& settings = config_.experts;
  return static_cast<double>(settings.experts) /
         (static_cast<double>(settings.chosen) * of_sequence * of_sequence * counted);
}

void RouterLosses::sum_over_tokens(Pass& pass, const Tensor& counts) const {
  if (pass.region.is_parallel() && pass.region.layout().sequence) {
    pass.finish(pass.region.group().all_reduce(pass.ops, counts, Reduction::kSum));
  }
  if (pass.context.size() > 1) {
    pass.finish(pass.context.group().all_reduce(pass.ops, counts, Reduction::kSum));
  }
}

void RouterLosses::add(Pass& pass, const Tensor& logits, const Saved& saved) const {
  if (pass.auxiliary.empty()) return;
  const ops::RouterScore score = config_.experts.rule.score;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const WorkspaceScope scope(pass.ops.workspace);
    const RouterLoss& loss = config_.experts.losses[i];
    const Tensor& sum = pass.auxiliary[i].sum;
    const bool balances = loss.kind != Kind::kLogits;
    const Shape shape{sequences(loss, pass.shape), experts()};
    const Tensor counts = balances ? saved[counts_[i]] : pass.scratch(DType::kI32, shape);
    const Tensor score_sums = pass.scratch(DType::kF64, shape);
    ops::balance_statistics(pass.ops, {.counts = counts,
                                       .score_sums = score_sums,
                                       .z_loss = balances ? Tensor{} : sum,
                                       .logits = logits,
                                       .chosen = config_.experts.chosen,
                                       .score = score,
                                       .z_factor = factor(loss, pass.shape)});
    if (!balances) continue;
    sum_over_tokens(pass, counts);
    ops::balance_loss(pass.ops, {.loss = sum,
                                 .counts = counts,
                                 .score_sums = score_sums,
                                 .factor = factor(loss, pass.shape)});
  }
}

RouterLosses::Gradient RouterLosses::gradient(Pass& pass, const Saved& saved) const {
  Gradient gradient;
  if (pass.auxiliary.empty()) return gradient;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const RouterLoss& loss = config_.experts.losses[i];
    const double by_value = loss.coefficient * pass.auxiliary[i].factor * factor(loss, pass.shape);
    if (loss.kind == Kind::kLogits) {
      gradient.z_loss += by_value;
      continue;
    }
    const bool is_first = !gradient.dscores;
    if (is_first) {
      gradient.dscores =
          pass.scratch(full_precision(config_.dtype), {pass.shape.micro_batch, experts()});
    }
    ops::balance_gradient(pass.ops, {.dscores = gradient.dscores,
                                     .counts = saved[counts_[i]],
                                     .scale = pass.loss_settings.loss_scale,
                                     .factor = by_value,
                                     .accumulate = !is_first});
  }
  return gradient;
}

}  // namespace phalanx::nn
