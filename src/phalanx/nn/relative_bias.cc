#include "phalanx/nn/relative_bias.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

ParamSpec bias_table(const TransformerConfig& config) {
  ParamSpec spec =
      whole_parameter(config.stack + "_relative_pos_emb.relative_attention_bias.weight",
                      {config.relative_buckets->count, config.heads}, config.dtype,
                      {Initialiser::Kind::kNormal, config.init_deviation});
  // A rank leaves zeros in the columns of other ranks' heads.
  if (config.tensor.size > 1) spec.summed_over = kRowAxes.with(Axis::kTensor);
  spec.shared_by = config.stack + "_relative_pos_emb";
  return spec;
}

}  // namespace

RelativeBias::RelativeBias(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                           std::int64_t layer, const TransformerConfig& config)
    : config_(config),
      table_(table.add_shared(bias_table(config), {.order = static_cast<int>(layer)})),
      trains_(table.trains(table_.id)),
      dtable_(slots.add({.name = "relative bias gradient",
                         .dtype = full_precision(config.dtype),
                         .born = Born::kInputGradient,
                         .last_reader = last_reader_if(trains_),
                         .shape = [extents = Shape{config.relative_buckets->count, config.heads}](
                                      const BatchShape& /*batch*/) { return extents; }})) {
  owned.push_back(table_.id);
}

Tensor RelativeBias::scratch(Pass& pass, std::int64_t queries, std::int64_t keys) const {
  return pass.scratch(full_precision(config_.dtype), {config_.local_heads(), queries, keys});
}

Tensor RelativeBias::bias(Pass& pass, std::int64_t queries, std::int64_t keys,
                          std::int64_t first_query) const {
  const Tensor bias = scratch(pass, queries, keys);
  ops::relative_bias_forward(pass.ops, {.bias = bias,
                                        .table = pass.weights[table_.id],
                                        .buckets = *config_.relative_buckets,
                                        .first_head = first_head(),
                                        .first_query = first_query});
  return bias;
}

Tensor RelativeBias::zeros(Pass& pass, std::int64_t queries, std::int64_t keys) const {
  const Tensor zeros = scratch(pass, queries, keys);
  ops::fill(pass.ops, {.x = zeros, .value = 0.0});
  return zeros;
}

void RelativeBias::backward_input(Pass& pass, const Tensor& dbias, const Saved& saved) const {
  // Of a frozen table too: nobody reads it, and the slot has no garbage for who looks for NaN.
  ops::fill(pass.ops, {.x = saved[dtable_], .value = 0.0});
  if (!trains_) return;
  ops::relative_bias_backward(pass.ops, {.dtable = saved[dtable_],
                                         .dbias = dbias,
                                         .buckets = *config_.relative_buckets,
                                         .first_head = first_head()});
}

void RelativeBias::backward_weight(Pass& pass, const Saved& saved,
                                   const Gradients& gradients) const {
  if (trains_) gradients.add(pass.ops, table_, saved[dtable_]);
}

}  // namespace phalanx::nn
