#include "phalanx/nn/cross_attention.h"

#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

std::int64_t context_width(const TransformerConfig& config) {
  return config.heads * config.head_size;
}

// The output of q or of kv on this rank; kv has the encoder's rows.
SavedId add_product(SavedSlots& slots, const TransformerConfig& config, const std::string& name,
                    Sequence sequence, Born born, LastReader last) {
  const std::int64_t tensors = sequence == Sequence::kEncoder ? 2 : 1;
  const std::int64_t width = tensors * context_width(config) / config.tensor.size;
  return slots.add({.name = name,
                    .dtype = config.dtype,
                    .born = born,
                    .last_reader = last,
                    .shape =
                        [width](const BatchShape& batch) {
                          return Shape{batch.sequence, batch.micro_batch, width};
                        }},
                   sequence);
}

}  // namespace

CrossAttention::CrossAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                               const std::string& prefix, std::int64_t layer,
                               const TransformerConfig& config)
    : config_(config),
      query_(table, owned, prefix + ".cross_attention.linear_q", context_width(config),
             config.hidden, config, config.init_deviation, Linear::Cut::kColumn,
             bias_if(config.linear_bias, Linear::Bias::kInProduct)),
      key_value_(table, owned, prefix + ".cross_attention.linear_kv", 2 * context_width(config),
                 config.hidden, config, config.init_deviation, Linear::Cut::kColumn,
                 bias_if(config.linear_bias, Linear::Bias::kInProduct)),
      projection_(table, owned, prefix + ".cross_attention.linear_proj", config.hidden,
                  context_width(config), config, config.exit_deviation(), Linear::Cut::kRow,
                  bias_if(config.linear_bias, Linear::Bias::kByCaller)),
      query_output_(add_product(slots, config, "cross attention query", config.sequence,
                                Born::kForward, LastReader::kInputGradient)),
      key_value_output_(add_product(slots, config, "cross attention keys and values",
                                    Sequence::kEncoder, Born::kForward,
                                    LastReader::kInputGradient)),
      dquery_output_(add_product(slots, config, "cross attention query gradient", config.sequence,
                                 Born::kInputGradient, last_reader_if(query_.trains()))),
      dkey_value_output_(add_product(slots, config, "cross attention keys and values gradient",
                                     Sequence::kEncoder, Born::kInputGradient,
                                     last_reader_if(key_value_.trains()))),
      core_(slots, layer,
            {.dropout = DropoutPlace::kCrossAttention,
             .is_cross = true,
             .trains_projection = projection_.trains_weight()},
            config) {
  PHALANX_CHECK(config.query_groups == config.heads, "cross attention has no grouped queries");
  PHALANX_CHECK(config.sequence == Sequence::kDecoder, "{} reads the encoder's output", prefix);
}

AttentionCore::Heads CrossAttention::split(const Tensor& query, const Tensor& key_value) const {
  const std::int64_t heads = config_.local_heads();
  const std::int64_t d = config_.head_size;
  const Tensor pairs = key_value.reshape({key_value.shape[0], key_value.shape[1], heads, 2, d});
  return {.query = query.reshape({query.shape[0], query.shape[1], heads, d}),
          .key = pairs.select(3, 0),
          .value = pairs.select(3, 1)};
}

Tensor CrossAttention::gathered(Pass& encoder, const Tensor& carried) const {
  if (!config_.tensor.sequence) return carried;
  const Tensor rows = encoder.scratch_rows(config_.dtype, config_.hidden);
  ops::copy(encoder.ops, {.destination = encoder.region.own(rows), .source = carried});
  encoder.finish(encoder.region.enter(encoder.ops, rows));
  return rows;
}

void CrossAttention::forward(BodyCall& call, const Tensor& y, const Tensor& entered) const {
  recompute(call, entered);
  projection_.forward(call.pass, y, core_.context(call.saved));
}

void CrossAttention::recompute(BodyCall& call, const Tensor& entered) const {
  Pass encoder = call.pass.of(Sequence::kEncoder);
  const Tensor& query = call.saved[query_output_];
  const Tensor& key_value = call.saved[key_value_output_];
  query_.forward(call.pass, query, entered);
  {
    const WorkspaceScope scope(call.pass.ops.workspace);
    key_value_.forward(encoder, key_value, gathered(encoder, call.carried));
  }
  core_.forward(call.pass, split(query, key_value),
                {.query = call.pass.rows(), .key = encoder.rows()}, {}, call.saved);
}

void CrossAttention::backward_to_entry(BodyCall& call) const {
  Pass& pass = call.pass;
  Pass encoder = pass.of(Sequence::kEncoder);
  const Tensor& dkey_value = call.saved[dkey_value_output_];
  {
    const WorkspaceScope scope(pass.ops.workspace);
    const Tensor dcontext =
        pass.scratch_rows(config_.dtype, config_.local_heads() * config_.head_size);
    projection_.backward_input(pass, dcontext, call.exit_gradient);
    core_.backward(pass, split(call.saved[dquery_output_], dkey_value), dcontext,
                   split(call.saved[query_output_], call.saved[key_value_output_]),
                   {.query = pass.rows(), .key = encoder.rows()}, {}, call.saved);
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dcarried = encoder.scratch_rows(config_.dtype, config_.hidden);
  key_value_.backward_input(encoder, dcarried, dkey_value);
  encoder.finish(encoder.region.leave(encoder.ops, dcarried));
  ops::accumulate(pass.ops,
                  {.destination = call.carried_gradient, .source = encoder.region.own(dcarried)});
}

void CrossAttention::entry_input_gradient(BodyCall& call, const Tensor& dentered) const {
  query_.backward_input(call.pass, dentered, call.saved[dquery_output_]);
}

void CrossAttention::entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                           const Gradients& gradients) const {
  query_.backward_weight(call.pass, call.saved[dquery_output_], entered, gradients);
}

void CrossAttention::exit_weight_gradient(BodyCall& call, const Gradients& gradients) const {
  projection_.backward_weight(call.pass, call.exit_gradient, core_.context(call.saved), gradients);
  if (!key_value_.trains()) return;
  const WorkspaceScope scope(call.pass.ops.workspace);
  Pass encoder = call.pass.of(Sequence::kEncoder);
  key_value_.backward_weight(
      encoder, call.saved[dkey_value_output_],
      key_value_.trains_weight() ? gathered(encoder, call.carried) : Tensor{}, gradients);
}

Sublayer cross_attention_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                                  const std::string& prefix, std::int64_t layer,
                                  const TransformerConfig& config) {
  const bool pre = config.norm_place == NormPlace::kPre;
  const Norm norm(table, owned, slots,
                  prefix + (pre ? ".pre_cross_attn_layernorm" : ".post_cross_attn_layernorm"),
                  config);
  return {norm,  std::make_unique<CrossAttention>(table, owned, slots, prefix, layer, config),
          slots, "cross attention projection",
          layer, config};
}

}  // namespace phalanx::nn
