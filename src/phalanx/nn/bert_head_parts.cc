#include "phalanx/nn/bert_head_parts.h"

#include "phalanx/nn/vocabulary_projection.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

SavedId add_pooled(SavedSlots& slots, std::string name, const TransformerConfig& config,
                   Born born) {
  const std::int64_t hidden = config.hidden;
  return slots.add({std::move(name), config.dtype, born, LastReader::kWeightGradient,
                    [hidden](const BatchShape& batch) {
                      return Shape{batch.micro_batch, hidden};
                    }});
}

// Whether the first row of the sequence is this rank's.
bool has_first_row(const Pass& pass) {
  const TensorParallel& layout = pass.region.layout();
  return !layout.sequence || layout.rank == 0;
}

}  // namespace

BertPooler::BertPooler(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                       const TransformerConfig& config)
    : config_(config),
      dense_(table, owned, "pooler.dense", config.hidden, config.hidden, config,
             config.init_deviation, Linear::Cut::kWhole, Linear::Bias::kInProduct),
      first_(add_pooled(slots, "first row", config, Born::kForward)),
      pooled_(add_pooled(slots, "pooled", config, Born::kForward)),
      ddense_output_(add_pooled(slots, "pooler gradient", config, Born::kInputGradient)) {}

void BertPooler::forward(Pass& pass, const Tensor& hidden, const Saved& saved) const {
  const Tensor first = saved[first_];
  if (has_first_row(pass)) {
    ops::copy(pass.ops, {.destination = first, .source = hidden.select(0, 0)});
  }
  if (pass.region.is_parallel() && pass.region.layout().sequence) {
    pass.finish(pass.region.group().broadcast(pass.ops, first, 0));
  }
  dense_.forward(pass, saved[pooled_], first);
  ops::tanh_forward(pass.ops, {.y = saved[pooled_], .x = saved[pooled_]});
}

void BertPooler::backward_input(Pass& pass, const Tensor& dhidden, const Tensor& dpooled,
                                const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor ddense = saved[ddense_output_];
  ops::tanh_backward(pass.ops, {.dx = ddense, .dy = dpooled, .y = saved[pooled_]});
  if (!has_first_row(pass)) return;
  const Tensor dfirst = pass.scratch(config_.dtype, ddense.shape);
  dense_.backward_input(pass, dfirst, ddense);
  ops::accumulate(pass.ops, {.destination = dhidden.select(0, 0), .source = dfirst});
}

void BertPooler::backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  dense_.backward_weight(pass, saved[ddense_output_], saved[first_], gradients);
}

std::optional<Norm> bert_final_norm(ParamTable& table, std::vector<ParamId>& owned,
                                    SavedSlots& slots, const TransformerConfig& config) {
  if (config.norm_place == NormPlace::kPost) return std::nullopt;
  return Norm(table, owned, slots, config.stack + ".final_layernorm", config);
}

void class_losses(Pass& pass, const LossTerm& term, const Tensor& logits, const Tensor& labels,
                  const Tensor& mask, const Tensor& dlogits) {
  const Tensor loss = pass.scratch(logits.dtype, {logits.shape[0]});
  const Tensor seed = pass.scratch(logits.dtype, {1});
  seed_loss(pass, seed, mask, term);
  ops::cross_entropy(pass.ops, {.loss = loss,
                                .dlogits = pass.training ? dlogits : Tensor{},
                                .logits = logits,
                                .targets = labels,
                                .mask = mask,
                                .seed = seed,
                                .vocabulary = logits.shape[1]});
  ops::loss_accumulate(pass.ops,
                       {.sum = term.sum, .count = term.count, .loss = loss, .mask = mask});
}

}  // namespace phalanx::nn
