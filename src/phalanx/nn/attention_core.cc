#include "phalanx/nn/attention_core.h"

namespace phalanx::nn {

AttentionCore::AttentionCore(SavedSlots& slots, std::int64_t layer, const Kind& kind,
                             const TransformerConfig& config)
    : config_(config), layer_(layer), kind_(kind) {
  const std::int64_t heads = config.local_heads();
  context_ = slots.add_rows("attention context", config.dtype, heads * config.head_size,
                            Born::kForward, last_reader_if(kind.trains_projection));
  // The fused kernel's backward needs the log-sum-exp, the unfused one's the probabilities; the
  // tensor that is not needed is empty.
  const bool fused = config.attention == AttentionKernel::kFused;
  const bool saves_probabilities = !fused && !kind.is_cross && !config.recompute_core_attention;
  PHALANX_CHECK(!kind.is_cross || !config.context.is_parallel(),
                "cross attention with rows of a sample on {} ranks", config.context.size);
  const int ranks = config.context.ranks_of_heads(layer);
  lse_ = slots.add(
      {.name = "attention lse",
       .dtype = full_precision(config.dtype),
       .last_reader = LastReader::kInputGradient,
       .shape =
           [heads, fused, ranks](const BatchShape& batch) {
             return Shape{fused ? batch.micro_batch : 0, heads / ranks, ranks * batch.sequence};
           },
       .may_be_minus_infinity = true});
  probabilities_ =
      slots.add({"attention probabilities", config.dtype, Born::kForward,
                 LastReader::kInputGradient, [heads, saves_probabilities](const BatchShape& batch) {
                   return Shape{saves_probabilities ? batch.micro_batch : 0, heads, batch.sequence,
                                batch.sequence};
                 }});
}

Tensor AttentionCore::as_heads(const Tensor& context) const {
  return context.reshape(
      {context.shape[0], context.shape[1], config_.local_heads(), config_.head_size});
}

Tensor AttentionCore::scratch_probabilities(const Pass& pass, const Heads& heads) const {
  return pass.scratch(config_.dtype, {heads.query.shape[1], config_.local_heads(),
                                      heads.query.shape[0], heads.key.shape[0]});
}

ops::AttentionInputs AttentionCore::inputs(const Pass& pass, const Heads& heads, const Rows& rows,
                                           const Tensor& bias, std::int64_t first_head) const {
  return {.query = heads.query,
          .key = heads.key,
          .value = heads.value,
          .bias = bias,
          .mask = {.causal = kind_.causal, .documents = kind_.documents, .window = kind_.window},
          .query_rows = rows.query,
          .key_rows = rows.key,
          .scale = config_.score_scale(),
          .dropout = {.probability = pass.training ? config_.attention_dropout : 0.0,
                      .key = config_.dropout_key,
                      .site = config_.dropout_site(
                          layer_, kind_.dropout,
                          config_.tensor.rank * config_.local_heads() + first_head)}};
}

void AttentionCore::forward(Pass& pass, const Heads& heads, const Rows& rows, const Bias& bias,
                            const Saved& saved) const {
  const Tensor out = as_heads(saved[context_]);
  if (config_.attention == AttentionKernel::kFused) {
    ops::attention_forward(
        pass.ops, {.out = out, .lse = saved[lse_], .in = inputs(pass, heads, rows, bias.values)});
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor& declared = saved[probabilities_];
  ops::unfused_attention_forward(
      pass.ops,
      {.out = out,
       .probabilities = declared.shape[0] > 0 ? declared : scratch_probabilities(pass, heads),
       .in = inputs(pass, heads, rows, bias.values)});
}

void AttentionCore::forward_cached(Pass& pass, const Heads& heads, const Rows& rows,
                                   const Bias& bias, const Saved& saved,
                                   std::int64_t sample) const {
  const Tensor out = as_heads(saved[context_]).slice(1, sample, 1);
  if (config_.attention == AttentionKernel::kFused) {
    ops::attention_forward(pass.ops, {.out = out,
                                      .lse = saved[lse_].slice(0, sample, 1),
                                      .in = inputs(pass, heads, rows, bias.values)});
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  ops::unfused_attention_forward(pass.ops, {.out = out,
                                            .probabilities = scratch_probabilities(pass, heads),
                                            .in = inputs(pass, heads, rows, bias.values)});
}

void AttentionCore::backward(Pass& pass, const Heads& gradients, const Tensor& dcontext,
                             const Heads& heads, const Rows& rows, const Bias& bias,
                             const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dout = as_heads(dcontext);
  if (config_.attention == AttentionKernel::kFused) {
    const Tensor& lse = saved[lse_];
    const Tensor delta = pass.scratch(lse.dtype, lse.shape);
    ops::attention_delta(pass.ops,
                         {.delta = delta, .out = as_heads(saved[context_]), .dout = dout});
    ops::attention_backward(pass.ops, {.dquery = gradients.query,
                                       .dkey = gradients.key,
                                       .dvalue = gradients.value,
                                       .dbias = bias.gradient,
                                       .dout = dout,
                                       .lse = lse,
                                       .delta = delta,
                                       .in = inputs(pass, heads, rows, bias.values)});
    return;
  }
  Tensor probabilities = saved[probabilities_];
  if (probabilities.shape[0] == 0) {
    probabilities = scratch_probabilities(pass, heads);
    const Tensor out = pass.scratch(config_.dtype, dout.shape);
    ops::unfused_attention_forward(
        pass.ops,
        {.out = out, .probabilities = probabilities, .in = inputs(pass, heads, rows, bias.values)});
  }
  ops::unfused_attention_backward(pass.ops, {.dquery = gradients.query,
                                             .dkey = gradients.key,
                                             .dvalue = gradients.value,
                                             .dbias = bias.gradient,
                                             .dout = dout,
                                             .probabilities = probabilities,
                                             .in = inputs(pass, heads, rows, bias.values)});
}

}  // namespace phalanx::nn
