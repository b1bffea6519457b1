#include "phalanx/nn/self_attention.h"

#include <cmath>

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
      layer_(layer),
      local_layer_(local_layer),
      norm_(table, owned, slots, prefix + ".input_layernorm", config),
      qkv_(table, owned, prefix + ".self_attention.linear_qkv", qkv_width(config), config.hidden,
           config, config.init_deviation, Linear::Cut::kColumn, Linear::Bias::kInProduct),
      projection_(table, owned, prefix + ".self_attention.linear_proj", config.hidden,
                  config.heads * config.head_size, config,
                  config.init_deviation / std::sqrt(2.0 * static_cast<double>(config.num_layers)),
                  Linear::Cut::kRow, Linear::Bias::kByCaller) {
  PHALANX_CHECK(config.query_groups % config.tensor.size == 0,
                "{} query groups on {} tensor-parallel ranks", config.query_groups,
                config.tensor.size);
  const std::int64_t heads = config.local_heads();
  const std::int64_t context_width = heads * config.head_size;
  const std::int64_t local_qkv_width = qkv_width(config) / config.tensor.size;
  qkv_output_ = slots.add_rows("qkv", config.dtype, local_qkv_width, Born::kForward,
                               LastReader::kInputGradient);
  context_ = slots.add_rows("attention context", config.dtype, context_width, Born::kForward,
                            LastReader::kWeightGradient);
  // One of the two is empty: what the kernel in use needs again. Probabilities that are computed
  // again are nowhere saved.
  const bool fused = config.attention == AttentionKernel::kFused;
  const bool saves_probabilities = !fused && !config.recompute_core_attention;
  lse_ = slots.add({"attention lse", full_precision(config.dtype), Born::kForward,
                    LastReader::kInputGradient, [heads, fused](const BatchShape& batch) {
                      return Shape{fused ? batch.micro_batch : 0, heads, batch.sequence};
                    }});
  probabilities_ =
      slots.add({"attention probabilities", config.dtype, Born::kForward,
                 LastReader::kInputGradient, [heads, saves_probabilities](const BatchShape& batch) {
                   return Shape{saves_probabilities ? batch.micro_batch : 0, heads, batch.sequence,
                                batch.sequence};
                 }});
  dqkv_output_ = slots.add_rows("qkv gradient", config.dtype, local_qkv_width, Born::kInputGradient,
                                LastReader::kWeightGradient);
  dprojection_output_ = slots.add_rows("attention projection gradient", config.dtype, config.hidden,
                                       Born::kInputGradient, LastReader::kWeightGradient);
}

SelfAttention::Heads SelfAttention::split(Pass& pass, const Tensor& qkv) const {
  const std::int64_t d = config_.head_size;
  const std::int64_t per_group = config_.heads / config_.query_groups;
  const Tensor grouped =
      qkv.reshape({qkv.shape[0], qkv.shape[1], config_.local_query_groups(), per_group + 2, d});
  Heads heads{.query = {},
              .key = grouped.select(3, per_group),
              .value = grouped.select(3, per_group + 1),
              .fused_query = {}};
  if (per_group == 1) {
    heads.query = grouped.select(3, 0);
  } else {
    heads.fused_query = grouped.slice(3, 0, per_group);
    heads.query = pass.scratch(qkv.dtype, {qkv.shape[0], qkv.shape[1], config_.local_heads(), d});
  }
  return heads;
}

SelfAttention::Heads SelfAttention::split_filled(Pass& pass, const Tensor& qkv) const {
  const Heads heads = split(pass, qkv);
  if (heads.fused_query) {
    ops::copy(pass.ops, {.destination = heads.query.reshape(heads.fused_query.shape),
                         .source = heads.fused_query});
  }
  return heads;
}

Tensor SelfAttention::as_heads(const Tensor& context) const {
  return context.reshape(
      {context.shape[0], context.shape[1], config_.local_heads(), config_.head_size});
}

ops::AttentionInputs SelfAttention::inputs(const Pass& pass, const Heads& heads) const {
  RowCoordinates key_rows = pass.batch.rows;
  if (pass.cache != nullptr) {
    const std::int64_t keys = heads.key.shape[0];
    key_rows = {.sample = pass.cache->rows.sample.slice(0, 0, keys),
                .position = pass.cache->rows.position.slice(0, 0, keys),
                .document = pass.cache->rows.document.slice(0, 0, keys)};
  }
  return {
      .query = heads.query,
      .key = heads.key,
      .value = heads.value,
      .bias = {},
      .mask = {.causal = config_.causal, .documents = config_.mask_documents},
      .query_rows = pass.batch.rows,
      .key_rows = key_rows,
      .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_size)),
      .dropout = {.probability = pass.training ? config_.attention_dropout : 0.0,
                  .key = config_.dropout_key,
                  .site = dropout_site(static_cast<std::uint32_t>(layer_), DropoutPlace::kAttention,
                                       static_cast<std::uint32_t>(config_.tensor.rank) *
                                           static_cast<std::uint32_t>(config_.local_heads()))}};
}

Dropout SelfAttention::hidden_dropout(const Pass& pass) const {
  return {.probability = pass.training ? config_.hidden_dropout : 0.0,
          .key = config_.dropout_key,
          .site = dropout_site(static_cast<std::uint32_t>(layer_), DropoutPlace::kAttentionOutput)};
}

void SelfAttention::append_to_cache(Pass& pass, Heads& heads) const {
  const auto layer = static_cast<std::size_t>(local_layer_);
  const std::int64_t begin = pass.cache->length;
  const std::int64_t fresh = heads.key.shape[0];
  const Tensor& keys = pass.cache->keys[layer];
  const Tensor& values = pass.cache->values[layer];
  ops::copy(pass.ops, {.destination = keys.slice(0, begin, fresh), .source = heads.key});
  ops::copy(pass.ops, {.destination = values.slice(0, begin, fresh), .source = heads.value});
  heads.key = keys.slice(0, 0, begin + fresh);
  heads.value = values.slice(0, 0, begin + fresh);
}

void SelfAttention::core_forward(Pass& pass, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  Heads heads = split_filled(pass, saved[qkv_output_]);
  if (pass.cache != nullptr) append_to_cache(pass, heads);
  const Tensor out = as_heads(saved[context_]);
  if (config_.attention == AttentionKernel::kFused) {
    ops::attention_forward(pass.ops, {.out = out, .lse = saved[lse_], .in = inputs(pass, heads)});
  } else {
    // A cache makes more keys than the saved tensor was declared for; nothing reads it then.
    const bool is_saved = pass.cache == nullptr && !config_.recompute_core_attention;
    const Tensor probabilities =
        is_saved ? saved[probabilities_]
                 : pass.scratch(config_.dtype, {pass.shape.micro_batch, config_.local_heads(),
                                                pass.shape.sequence, heads.key.shape[0]});
    ops::unfused_attention_forward(
        pass.ops, {.out = out, .probabilities = probabilities, .in = inputs(pass, heads)});
  }
}

void SelfAttention::core_backward(Pass& pass, const Tensor& dcontext, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Heads heads = split_filled(pass, saved[qkv_output_]);
  const Heads gradients = split(pass, saved[dqkv_output_]);
  const Tensor dout = as_heads(dcontext);
  if (config_.attention == AttentionKernel::kFused) {
    const Tensor& lse = saved[lse_];
    const Tensor delta = pass.scratch(lse.dtype, lse.shape);
    ops::attention_delta(pass.ops,
                         {.delta = delta, .out = as_heads(saved[context_]), .dout = dout});
    ops::attention_backward(pass.ops, {.dquery = gradients.query,
                                       .dkey = gradients.key,
                                       .dvalue = gradients.value,
                                       .dbias = {},
                                       .dout = dout,
                                       .lse = lse,
                                       .delta = delta,
                                       .in = inputs(pass, heads)});
  } else {
    Tensor probabilities = saved[probabilities_];
    if (config_.recompute_core_attention) {
      probabilities = pass.scratch(config_.dtype, {pass.shape.micro_batch, config_.local_heads(),
                                                   pass.shape.sequence, pass.shape.sequence});
      const Tensor out = pass.scratch(config_.dtype, dout.shape);
      ops::unfused_attention_forward(
          pass.ops, {.out = out, .probabilities = probabilities, .in = inputs(pass, heads)});
    }
    ops::unfused_attention_backward(pass.ops, {.dquery = gradients.query,
                                               .dkey = gradients.key,
                                               .dvalue = gradients.value,
                                               .dbias = {},
                                               .dout = dout,
                                               .probabilities = probabilities,
                                               .in = inputs(pass, heads)});
  }
  if (gradients.fused_query) {
    ops::copy(pass.ops, {.destination = gradients.fused_query,
                         .source = gradients.query.reshape(gradients.fused_query.shape)});
  }
}

void SelfAttention::forward(Pass& pass, const Tensor& out, const Tensor& x,
                            const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor y = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.forward(pass, pass.region.own(y), x, saved);
  pass.finish(pass.region.enter(pass.ops, y));
  qkv_.forward(pass, saved[qkv_output_], y);
  core_forward(pass, saved);
  projection_.forward(pass, y, saved[context_]);
  pass.finish(pass.region.leave(pass.ops, y));
  ops::bias_dropout_residual(pass.ops, {.out = out,
                                        .x = pass.region.own(y),
                                        .bias = pass.weights[projection_.bias()],
                                        .residual = x,
                                        .dropout = hidden_dropout(pass),
                                        .rows = pass.stream_rows()});
}

void SelfAttention::backward_to_qkv(Pass& pass, const Tensor& dout, const Saved& saved) const {
  const Tensor dprojection = saved[dprojection_output_];
  ops::dropout_backward(pass.ops, {.dx = pass.region.own(dprojection),
                                   .dout = dout,
                                   .dropout = hidden_dropout(pass),
                                   .rows = pass.stream_rows()});
  pass.finish(pass.region.enter(pass.ops, dprojection));
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dcontext =
      pass.scratch_rows(config_.dtype, config_.local_heads() * config_.head_size);
  projection_.backward_input(pass, dcontext, dprojection);
  core_backward(pass, dcontext, saved);
}

void SelfAttention::backward_input(Pass& pass, const Tensor& dx, const Tensor& dout,
                                   const Tensor& x, const Saved& saved) const {
  backward_to_qkv(pass, dout, saved);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  qkv_.backward_input(pass, dnorm, saved[dqkv_output_]);
  pass.finish(pass.region.leave(pass.ops, dnorm));
  norm_.backward_input(pass, dx, pass.region.own(dnorm), x, dout, saved);
}

void SelfAttention::backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                                    const Gradients& gradients) const {
  projection_.backward_weight(pass, saved[dprojection_output_], saved[context_], gradients);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), x, saved);
  pass.finish(pass.region.enter(pass.ops, normed));
  qkv_.backward_weight(pass, saved[dqkv_output_], normed, gradients);
  norm_.backward_weight(pass, saved, gradients);
}

void SelfAttention::backward(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                             const Saved& saved, const Gradients& gradients) const {
  backward_to_qkv(pass, dout, saved);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), x, saved);
  const Work gathering = pass.region.enter(pass.ops, normed);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  qkv_.backward_input(pass, dnorm, saved[dqkv_output_]);
  const Work reducing = pass.region.leave(pass.ops, dnorm);
  projection_.backward_weight(pass, saved[dprojection_output_], saved[context_], gradients);
  pass.finish(gathering);
  qkv_.backward_weight(pass, saved[dqkv_output_], normed, gradients);
  pass.finish(reducing);
  norm_.backward_input(pass, dx, pass.region.own(dnorm), x, dout, saved);
  norm_.backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
