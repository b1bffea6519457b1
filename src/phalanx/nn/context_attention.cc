#include "phalanx/nn/context_attention.h"

#include "phalanx/nn/context_rows.h"
#include "phalanx/nn/gathered_attention.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {

ContextAttention::ContextAttention(SavedSlots& slots, std::int64_t layer,
                                   const TransformerConfig& config)
    : config_(config),
      exchange_(config.context.exchange_of(layer)),
      inner_(config.context.ranks_of_heads(layer)),
      outer_(config.context.size / inner_),
      heads_(config, inner_) {
  PHALANX_CHECK(config.context.is_parallel() && config.causal && !config.relative_buckets &&
                    config.attention == AttentionKernel::kFused,
                "rows of a sample on {} ranks need a causal stack without biases of scores, with "
                "fused kernels",
                config.context.size);
  if (!saves_heads()) return;
  by_heads_ = slots.add({"qkv by heads", config.dtype, Born::kForward, LastReader::kInputGradient,
                         [inner = inner_, width = heads_.width()](const BatchShape& batch) {
                           return Shape{inner * batch.sequence, batch.micro_batch, width};
                         }});
}

Communicator& ContextAttention::neighbours(const Pass& pass) const {
  if (outer_ == 1) return pass.context.group();
  PHALANX_CHECK(pass.context.heads() != nullptr && pass.context.heads()->size() == inner_,
                "no group of {} ranks that exchange heads", inner_);
  return *pass.context.heads();
}

Communicator& ContextAttention::ring(const Pass& pass) const {
  if (inner_ == 1) return pass.context.group();
  PHALANX_CHECK(pass.context.ring() != nullptr && pass.context.ring()->size() == outer_,
                "no ring of {} ranks", outer_);
  return *pass.context.ring();
}

DType ContextAttention::type_of_sums() const {
  const bool in_parts = exchange_ != ContextExchange::kGather && outer_ > 1;
  return in_parts ? full_precision(config_.dtype) : config_.dtype;
}

ContextAttention::Level ContextAttention::level(Pass& pass, const AttentionCore& core,
                                                const AttentionCore::Heads& heads) const {
  PHALANX_CHECK(pass.context.size() == config_.context.size,
                "a layer of {} ranks of a context runs on {}", config_.context.size,
                pass.context.size());
  if (exchange_ == ContextExchange::kGather) {
    return {.inputs = core.inputs(pass, heads, {.query = pass.rows(), .key = {}}), .ring_rows = {}};
  }
  const RowCoordinates groups = rows_of_groups(pass, inner_, config_.context.in_chunks);
  const RowCoordinates own = rows_of_own_group(pass, groups, inner_);
  const std::int64_t share = inner_ == 1 ? 0 : neighbours(pass).rank();
  return {
      .inputs = core.inputs(pass, heads, {.query = own, .key = own}, {}, share * heads_.heads()),
      .ring_rows = groups};
}

void ContextAttention::attend(Pass& pass, const Level& level, const Tensor& out,
                              const Tensor& lse) const {
  if (exchange_ == ContextExchange::kGather) {
    return gathered_attention_forward(pass, out, lse, level.inputs, config_.context.in_chunks);
  }
  if (outer_ == 1) {
    return ops::attention_forward(pass.ops, {.out = out, .lse = lse, .in = level.inputs});
  }
  ring_attention_forward(pass, ring(pass), out, lse,
                         {.own = level.inputs, .ring_rows = level.ring_rows});
}

void ContextAttention::forward(Pass& pass, const AttentionCore& core,
                               const AttentionCore::Heads& heads, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor context = core.as_heads(core.context(saved));
  const DType type = type_of_sums();
  if (!saves_heads()) {
    const Tensor out = type == config_.dtype ? context : pass.scratch(type, context.shape);
    attend(pass, level(pass, core, heads), out, core.lse(saved));
    if (type != config_.dtype) ops::copy(pass.ops, {.destination = context, .source = out});
    return;
  }
  const Tensor& by_heads = saved[by_heads_];
  heads_.to_heads(pass, neighbours(pass), by_heads, heads);
  const Tensor out =
      pass.scratch(type, {by_heads.shape[0], by_heads.shape[1], heads_.heads(), config_.head_size});
  attend(pass, level(pass, core, heads_.split(by_heads)), out, core.lse(saved));
  heads_.output_to_rows(pass, neighbours(pass), context, out);
}

AttentionCore::Heads ContextAttention::attend_backward(Pass& pass, const Level& level,
                                                       const Tensor& query, const Tensor& dout,
                                                       const Tensor& lse,
                                                       const Tensor& delta) const {
  const DType full = full_precision(config_.dtype);
  const Shape& keys = level.inputs.key.shape;
  const bool in_full = outer_ > 1 || !heads_.has_whole_groups();
  const Tensor pair =
      pass.scratch(in_full ? full : config_.dtype, {2, keys[0], keys[1], keys[2], keys[3]});
  const AttentionCore::Heads gradients = {
      .query = query, .key = pair.select(0, 0), .value = pair.select(0, 1)};
  if (outer_ > 1) {
    ring_attention_backward(pass, ring(pass), {.query = query, .key_and_value = pair}, dout, lse,
                            delta, {.own = level.inputs, .ring_rows = level.ring_rows});
  } else {
    ops::attention_backward(pass.ops, {.dquery = gradients.query,
                                       .dkey = gradients.key,
                                       .dvalue = gradients.value,
                                       .dbias = {},
                                       .dout = dout,
                                       .lse = lse,
                                       .delta = delta,
                                       .in = level.inputs});
  }
  return gradients;
}

void ContextAttention::backward(Pass& pass, const AttentionCore& core,
                                const AttentionCore::Heads& gradients, const Tensor& dcontext,
                                const AttentionCore::Heads& heads, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dout = core.as_heads(dcontext);
  const Tensor& lse = core.lse(saved);
  const DType type = type_of_sums();
  const Tensor delta =
      pass.scratch(lse.dtype, {dout.shape[1], config_.local_heads(), dout.shape[0]});
  ops::attention_delta(pass.ops,
                       {.delta = delta, .out = core.as_heads(core.context(saved)), .dout = dout});
  if (exchange_ == ContextExchange::kGather) {
    return gathered_attention_backward(pass,
                                       {.dquery = gradients.query,
                                        .dkey = gradients.key,
                                        .dvalue = gradients.value,
                                        .dbias = {},
                                        .dout = dout,
                                        .lse = lse,
                                        .delta = delta,
                                        .in = level(pass, core, heads).inputs},
                                       config_.context.in_chunks);
  }
  if (saves_heads()) {
    const Tensor& by_heads = saved[by_heads_];
    const Tensor dout_by_heads = pass.scratch(
        dout.dtype, {by_heads.shape[0], by_heads.shape[1], heads_.heads(), config_.head_size});
    const Tensor delta_by_heads = pass.scratch(lse.dtype, lse.shape);
    heads_.output_to_heads(pass, neighbours(pass), dout_by_heads, dout);
    heads_.statistic_to_heads(pass, neighbours(pass), delta_by_heads, delta);
    const AttentionCore::Heads own = heads_.split(by_heads);
    const Tensor query = pass.scratch(type, own.query.shape);
    const AttentionCore::Heads found =
        attend_backward(pass, level(pass, core, own), query, dout_by_heads, lse, delta_by_heads);
    return heads_.gradients_to_rows(pass, neighbours(pass), gradients, found);
  }
  const Tensor query =
      type == config_.dtype ? gradients.query : pass.scratch(type, gradients.query.shape);
  const AttentionCore::Heads found =
      attend_backward(pass, level(pass, core, heads), query, dout, lse, delta);
  if (type != config_.dtype) {
    ops::copy(pass.ops, {.destination = gradients.query, .source = query});
  }
  ops::copy(pass.ops, {.destination = gradients.key, .source = found.key});
  ops::copy(pass.ops, {.destination = gradients.value, .source = found.value});
}

}  // namespace phalanx::nn
