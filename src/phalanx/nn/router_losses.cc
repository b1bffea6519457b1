#include "phalanx/nn/router_losses.h"

#include "phalanx/ops/balance.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

using Kind = RouterLoss::Kind;

RouterLosses::RouterLosses(SavedSlots& slots, RouterId router, const TransformerConfig& config)
    : config_(config), router_(router) {
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

int RouterLosses::sample_ranks(const Pass& pass) {
  const Communicator* rows = pass.router_counts.rows;
  return rows == nullptr ? 1 : rows->size() / pass.context.size();
}

double RouterLosses::factor(const RouterLoss& loss, const Pass& pass) const {
  const BatchShape& shape = pass.shape;
  const auto tokens = static_cast<double>(shape.whole_sequence() * shape.micro_batch);
  if (loss.kind == Kind::kLogits) return 1.0 / tokens;
  const ExpertSettings& settings = config_.experts;
  const double per_choice =
      static_cast<double>(settings.experts) / static_cast<double>(settings.chosen);
  if (loss.kind == Kind::kGlobalBalance) {
    // The terms of the ranks add up to one loss, and are then divided by the number of ranks.
    const auto ranks = static_cast<double>(sample_ranks(pass));
    const double all = tokens * ranks;
    return per_choice * ranks / (all * all * static_cast<double>(pass.router_counts.microbatches));
  }
  const auto counted = static_cast<double>(sequences(loss, shape));
  const double of_sequence = tokens / counted;
  return per_choice / (of_sequence * of_sequence * counted);
}

void RouterLosses::sum_over_tokens(Pass& pass, const RouterLoss& loss, const Tensor& counts) {
  if (pass.region.is_parallel() && pass.region.layout().sequence) {
    pass.finish(pass.region.group().all_reduce(pass.ops, counts, Reduction::kSum));
  }
  if (loss.kind == Kind::kGlobalBalance) {
    if (Communicator* rows = pass.router_counts.rows) {
      pass.finish(rows->all_reduce(pass.ops, counts, Reduction::kSum));
    }
  } else if (pass.context.size() > 1) {
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
                                       .z_factor = factor(loss, pass)});
    if (!balances) continue;
    if (loss.kind == Kind::kGlobalBalance) {
      const Tensor& so_far = pass.router_counts.best[static_cast<std::size_t>(router_)];
      ops::accumulate(pass.ops, {.destination = so_far, .source = counts.reshape(so_far.shape)});
      ops::copy(pass.ops, {.destination = counts, .source = so_far.reshape(counts.shape)});
    }
    sum_over_tokens(pass, loss, counts);
    ops::balance_loss(
        pass.ops,
        {.loss = sum, .counts = counts, .score_sums = score_sums, .factor = factor(loss, pass)});
  }
}

RouterLosses::Gradient RouterLosses::gradient(Pass& pass, const Saved& saved) const {
  Gradient gradient;
  if (pass.auxiliary.empty()) return gradient;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const RouterLoss& loss = config_.experts.losses[i];
    const double by_value = loss.coefficient * pass.auxiliary[i].factor * factor(loss, pass);
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
