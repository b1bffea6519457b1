#include "phalanx/nn/self_attention.h"

namespace phalanx::nn {
namespace {

std::int64_t qkv_width(const TransformerConfig& config) {
  return (config.heads + 2 * config.query_groups) * config.head_size;
}

}  // namespace

SelfAttention::SelfAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                             const std::string& prefix, std::int64_t layer,
                             std::int64_t local_layer, const TransformerConfig& config)
    : config_(config),
      local_layer_(local_layer),
      qkv_(table, owned, prefix + ".self_attention.linear_qkv", qkv_width(config), config.hidden,
           config, config.init_deviation, Linear::Cut::kColumn,
           bias_if(config.qkv_bias, Linear::Bias::kInProduct)),
      projection_(table, owned, prefix + ".self_attention.linear_proj", config.hidden,
                  config.heads * config.head_size, config, config.exit_deviation(),
                  Linear::Cut::kRow, bias_if(config.linear_bias, Linear::Bias::kByCaller)),
      qkv_output_(slots.add_rows("qkv", config.dtype, qkv_width(config) / config.tensor.size,
                                 Born::kForward, LastReader::kInputGradient)),
      dqkv_output_(slots.add_rows("qkv gradient", config.dtype,
                                  qkv_width(config) / config.tensor.size, Born::kInputGradient,
                                  LastReader::kWeightGradient)),
      core_(slots, layer,
            {.dropout = DropoutPlace::kAttention,
             .causal = config.causal,
             .documents = config.mask_documents},
            config) {
  PHALANX_CHECK(config.query_groups % config.tensor.size == 0,
                "{} query groups on {} tensor-parallel ranks", config.query_groups,
                config.tensor.size);
  if (config.relative_buckets) bias_.emplace(table, owned, slots, layer, config);
}

SelfAttention::FusedHeads SelfAttention::split(Pass& pass, const Tensor& qkv) const {
  const std::int64_t d = config_.head_size;
  const std::int64_t per_group = config_.heads / config_.query_groups;
  const Tensor grouped =
      qkv.reshape({qkv.shape[0], qkv.shape[1], config_.local_query_groups(), per_group + 2, d});
  FusedHeads heads{
      {.query = {}, .key = grouped.select(3, per_group), .value = grouped.select(3, per_group + 1)},
      {}};
  if (per_group == 1) {
    heads.query = grouped.select(3, 0);
  } else {
    heads.fused_query = grouped.slice(3, 0, per_group);
    heads.query = pass.scratch(qkv.dtype, {qkv.shape[0], qkv.shape[1], config_.local_heads(), d});
  }
  return heads;
}

SelfAttention::FusedHeads SelfAttention::split_filled(Pass& pass, const Tensor& qkv) const {
  const FusedHeads heads = split(pass, qkv);
  if (heads.fused_query) {
    ops::copy(pass.ops, {.destination = heads.query.reshape(heads.fused_query.shape),
                         .source = heads.fused_query});
  }
  return heads;
}

RowCoordinates SelfAttention::append(Pass& pass, const KeyValueCache& cache,
                                     AttentionCore::Heads& heads) const {
  const auto layer = static_cast<std::size_t>(local_layer_);
  const std::int64_t begin = cache.length;
  const std::int64_t fresh = heads.key.shape[0];
  const std::int64_t keys = begin + fresh;
  const auto join = [&](const Tensor& all, Tensor& own) {
    ops::copy(pass.ops, {.destination = all.slice(0, begin, fresh), .source = own});
    own = all.slice(0, 0, keys);
  };
  join(cache.keys[layer], heads.key);
  join(cache.values[layer], heads.value);
  return {.sample = cache.rows.sample.slice(0, 0, keys),
          .position = cache.rows.position.slice(0, 0, keys),
          .document = cache.rows.document.slice(0, 0, keys)};
}

void SelfAttention::forward(BodyPass& at, const Tensor& y, const Tensor& entered) const {
  recompute(at, entered);
  projection_.forward(at.pass, y, core_.context(at.saved));
}

void SelfAttention::recompute(BodyPass& at, const Tensor& entered) const {
  Pass& pass = at.pass;
  qkv_.forward(pass, at.saved[qkv_output_], entered);
  const WorkspaceScope scope(pass.ops.workspace);
  FusedHeads heads = split_filled(pass, at.saved[qkv_output_]);
  const RowCoordinates& rows = pass.rows();
  const RowCoordinates key_rows = at.cache != nullptr ? append(pass, *at.cache, heads) : rows;
  AttentionCore::Bias bias;
  if (bias_) {
    bias.values = bias_->bias(pass, heads.query.shape[0], heads.key.shape[0],
                              at.cache != nullptr ? at.cache->length : 0);
  }
  core_.forward(pass, heads, {.query = rows, .key = key_rows}, bias, at.saved);
}

void SelfAttention::backward_to_entry(BodyPass& at) const {
  Pass& pass = at.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dcontext =
      pass.scratch_rows(config_.dtype, config_.local_heads() * config_.head_size);
  projection_.backward_input(pass, dcontext, at.exit_gradient);
  const FusedHeads heads = split_filled(pass, at.saved[qkv_output_]);
  const FusedHeads gradients = split(pass, at.saved[dqkv_output_]);
  const RowCoordinates& rows = pass.rows();
  AttentionCore::Bias bias;
  if (bias_) {
    const std::int64_t sequence = pass.shape.sequence;
    bias = {.values = bias_->bias(pass, sequence, sequence, 0),
            .gradient = bias_->zeros(pass, sequence, sequence)};
  }
  core_.backward(pass, gradients, dcontext, heads, {.query = rows, .key = rows}, bias, at.saved);
  if (bias_) bias_->backward_input(pass, bias.gradient, at.saved);
  if (gradients.fused_query) {
    ops::copy(pass.ops, {.destination = gradients.fused_query,
                         .source = gradients.query.reshape(gradients.fused_query.shape)});
  }
}

void SelfAttention::entry_input_gradient(BodyPass& at, const Tensor& dentered) const {
  qkv_.backward_input(at.pass, dentered, at.saved[dqkv_output_]);
}

void SelfAttention::entry_weight_gradient(BodyPass& at, const Tensor& entered,
                                          const Gradients& gradients) const {
  qkv_.backward_weight(at.pass, at.saved[dqkv_output_], entered, gradients);
}

void SelfAttention::exit_weight_gradient(BodyPass& at, const Gradients& gradients) const {
  projection_.backward_weight(at.pass, at.exit_gradient, core_.context(at.saved), gradients);
  if (bias_) bias_->backward_weight(at.pass, at.saved, gradients);
}

Sublayer self_attention_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                                 const std::string& prefix, std::int64_t layer,
                                 std::int64_t local_layer, const TransformerConfig& config) {
  const bool pre = config.norm_place == NormPlace::kPre;
  const Norm norm(table, owned, slots,
                  prefix + (pre ? ".input_layernorm" : ".post_self_attn_layernorm"), config);
  return {norm,
          std::make_unique<SelfAttention>(table, owned, slots, prefix, layer, local_layer, config),
          slots,
          "attention projection",
          layer,
          config};
}

}  // namespace phalanx::nn
