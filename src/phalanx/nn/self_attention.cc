#include "phalanx/nn/self_attention.h"

namespace phalanx::nn {
namespace {

std::int64_t qkv_width(const TransformerConfig& config) {
  return (config.heads + 2 * config.query_groups) * config.head_size;
}

// Without it ranks exchange rows for heads, and save the result.
bool saves_qkv(std::int64_t layer, const TransformerConfig& config) {
  return config.context.ranks_of_heads(layer) == 1 || config.qk_norm;
}

// Parts of linear_qkv: of each group its queries, its key and its value.
std::vector<Adapters::Part> qkv_parts(const TransformerConfig& config) {
  const std::int64_t groups = config.local_query_groups();
  const std::int64_t per_group = config.local_heads() / groups;
  const std::int64_t d = config.head_size;
  const auto [rank, ranks] = std::pair(config.tensor.rank, config.tensor.size);
  const RowRange queries{.first = rank * config.local_heads() * d,
                         .count = config.local_heads() * d};
  RowRange keys{.first = rank * groups * d, .count = groups * d};
  if (config.query_groups < ranks) {
    // Neighbours share a group's key and value.
    keys.holders = ranks / static_cast<int>(config.query_groups);
    keys.holder = rank % keys.holders;
    keys.first = rank / keys.holders * d;
  }
  const auto part = [&](AdapterPart which, std::int64_t features, const RowRange& range,
                        std::int64_t first, std::int64_t count) {
    return Adapters::Part{.part = which,
                          .features = features,
                          .ranges = {range},
                          .outer = groups,
                          .slots = per_group + 2,
                          .inner = d,
                          .first = first,
                          .count = count};
  };
  return {part(AdapterPart::kQuery, config.heads * d, queries, 0, per_group),
          part(AdapterPart::kKey, config.query_groups * d, keys, per_group, 1),
          part(AdapterPart::kValue, config.query_groups * d, keys, per_group + 1, 1),
          {.part = AdapterPart::kQkv,
           .features = qkv_width(config),
           .ranges = qkv_rows(config),
           .inner = config.local_qkv_width()}};
}

}  // namespace

std::vector<RowRange> qkv_rows(const TransformerConfig& config) {
  const std::int64_t groups = config.query_groups;
  const auto [rank, ranks] = std::pair(config.tensor.rank, config.tensor.size);
  PHALANX_CHECK((groups % ranks == 0 || ranks % groups == 0) && config.heads % ranks == 0,
                "{} heads in {} groups on {} tensor-parallel ranks", config.heads, groups, ranks);
  const std::int64_t group_rows = (config.heads / groups + 2) * config.head_size;
  if (groups % ranks == 0) {
    const std::int64_t count = groups / ranks * group_rows;
    return {{.first = rank * count, .count = count}};
  }
  const int holders = ranks / static_cast<int>(groups);
  const int holder = rank % holders;
  const std::int64_t first = rank / holders * group_rows;
  const std::int64_t queries = config.local_heads() * config.head_size;
  const std::int64_t keys_and_values = 2 * config.head_size;
  return {{.first = first + holder * queries, .count = queries},
          {.first = first + group_rows - keys_and_values,
           .count = keys_and_values,
           .holders = holders,
           .holder = holder}};
}

SelfAttention::SelfAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                             const std::string& prefix, std::int64_t layer,
                             std::int64_t local_layer, const TransformerConfig& config)
    : config_(config),
      local_layer_(local_layer),
      qkv_(table, owned, prefix + ".self_attention.linear_qkv", qkv_width(config), config.hidden,
           config, config.init_deviation, Linear::Cut::kColumn,
           bias_if(config.qkv_bias, Linear::Bias::kInProduct), qkv_rows(config)),
      qkv_adapters_(table, owned, slots, prefix + ".self_attention.linear_qkv", layer,
                    config.hidden, Linear::Cut::kColumn, qkv_parts(config), config),
      projection_(table, owned, prefix + ".self_attention.linear_proj", config.hidden,
                  config.heads * config.head_size, config, config.exit_deviation(),
                  Linear::Cut::kRow, bias_if(config.linear_bias, Linear::Bias::kByCaller)),
      projection_adapters_(
          table, owned, slots, prefix + ".self_attention.linear_proj", layer,
          config.heads * config.head_size, Linear::Cut::kRow,
          {{.part = AdapterPart::kOutput, .features = config.hidden, .inner = config.hidden}},
          config),
      qkv_output_(saves_qkv(layer, config)
                      ? slots.add_rows("qkv", config.dtype, config.local_qkv_width(),
                                       Born::kForward, LastReader::kInputGradient)
                      : -1),
      dqkv_output_(slots.add_rows(
          "qkv gradient", config.dtype, config.local_qkv_width(), Born::kInputGradient,
          last_reader_if(qkv_.trains() || qkv_adapters_.reads_output_gradient()))),
      core_(
          slots, layer,
          {.dropout = DropoutPlace::kAttention,
           .causal = config.causal,
           .documents = config.mask_documents,
           .window = config.causal ? config.window_of(layer) : 0,
           .trains_projection = projection_.trains_weight() || projection_adapters_.reads_input()},
          config) {
  if (config.context.is_parallel()) context_attention_.emplace(slots, layer, config);
  if (config.qk_norm) {
    const std::int64_t per_group = config.local_heads() / config.local_query_groups();
    query_norm_.emplace(table, owned, slots, prefix + ".self_attention.q_layernorm", per_group,
                        config);
    key_norm_.emplace(table, owned, slots, prefix + ".self_attention.k_layernorm", 1, config);
  }
  if (config.rotary) rotary_.emplace(table, config);
  if (config.relative_buckets) bias_.emplace(table, owned, slots, layer, config);
}

AttentionCore::Heads SelfAttention::split(const Tensor& qkv) const {
  const std::int64_t groups = config_.local_query_groups();
  const std::int64_t per_group = config_.local_heads() / groups;
  const Tensor grouped =
      qkv.reshape({qkv.shape[0], qkv.shape[1], groups, per_group + 2, config_.head_size});
  return {.query = grouped.slice(3, 0, per_group),
          .key = grouped.select(3, per_group),
          .value = grouped.select(3, per_group + 1)};
}

AttentionCore::Heads SelfAttention::with_normed_scratch(Pass& pass,
                                                        const AttentionCore::Heads& heads) const {
  if (!query_norm_) return heads;
  return {.query = pass.scratch(heads.query.dtype, heads.query.shape),
          .key = pass.scratch(heads.key.dtype, heads.key.shape),
          .value = heads.value};
}

AttentionCore::Heads SelfAttention::position(Pass& pass, const Tensor& qkv,
                                             const Saved& saved) const {
  const AttentionCore::Heads raw = split(qkv);
  const AttentionCore::Heads heads = with_normed_scratch(pass, raw);
  if (query_norm_) {
    query_norm_->forward(pass, heads.query, raw.query, saved);
    key_norm_->forward(pass, heads.key, raw.key, saved);
  }
  if (rotary_) {
    rotary_->forward(pass, heads.query);
    rotary_->forward(pass, heads.key);
  }
  return heads;
}

AttentionCore::Heads SelfAttention::position_again(Pass& pass, const Saved& saved) const {
  const AttentionCore::Heads raw = split(saved[qkv_output_]);
  if (!query_norm_) return raw;
  const AttentionCore::Heads heads = with_normed_scratch(pass, raw);
  query_norm_->apply(pass, heads.query, raw.query, saved);
  key_norm_->apply(pass, heads.key, raw.key, saved);
  if (rotary_) {
    rotary_->forward(pass, heads.query);
    rotary_->forward(pass, heads.key);
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

void SelfAttention::forward(BodyCall& call, const Tensor& y, const Tensor& entered) const {
  recompute(call, entered);
  projection_.forward(call.pass, y, core_.context(call.saved));
  projection_adapters_.add(call.pass, y, call.saved);
}

void SelfAttention::recompute(BodyCall& call, const Tensor& entered) const {
  attend(call, entered);
  projection_adapters_.enter(call.pass, core_.context(call.saved), call.saved);
}

void SelfAttention::attend(BodyCall& call, const Tensor& entered) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor qkv = qkv_output_ >= 0 ? call.saved[qkv_output_]
                                      : pass.scratch_rows(config_.dtype, config_.local_qkv_width());
  qkv_.forward(pass, qkv, entered);
  qkv_adapters_.forward(pass, qkv, entered, call.saved);
  const AttentionCore::Heads heads = position(pass, qkv, call.saved);
  if (context_attention_) {
    PHALANX_CHECK(call.caches.empty(), "caches of samples whose rows lie on several ranks");
    return context_attention_->forward(pass, core_, heads, call.saved);
  }
  if (!call.caches.empty()) return attend_cached(call, heads);
  const RowCoordinates& rows = pass.rows();
  AttentionCore::Bias bias;
  if (bias_) bias.values = bias_->bias(pass, pass.shape.sequence, pass.shape.sequence, 0);
  core_.forward(pass, heads, {.query = rows, .key = rows}, bias, call.saved);
}

void SelfAttention::attend_cached(BodyCall& call, const AttentionCore::Heads& heads) const {
  Pass& pass = call.pass;
  PHALANX_CHECK(std::ssize(call.caches) == pass.shape.micro_batch, "{} caches of {} samples",
                call.caches.size(), pass.shape.micro_batch);
  for (std::int64_t i = 0; i < pass.shape.micro_batch; ++i) {
    const WorkspaceScope scope(pass.ops.workspace);
    const auto own = [i](const Tensor& all) { return all.slice(1, i, 1); };
    const KeyValueCache& cache = *call.caches[static_cast<std::size_t>(i)];
    AttentionCore::Heads sample{
        .query = own(heads.query), .key = own(heads.key), .value = own(heads.value)};
    const RowCoordinates key_rows = append(pass, cache, sample);
    const RowCoordinates rows = {.sample = own(pass.rows().sample),
                                 .position = own(pass.rows().position),
                                 .document = own(pass.rows().document)};
    AttentionCore::Bias bias;
    if (bias_) {
      bias.values = bias_->bias(pass, pass.shape.sequence, sample.key.shape[0], cache.length);
    }
    core_.forward_cached(pass, sample, {.query = rows, .key = key_rows}, bias, call.saved, i);
  }
}

void SelfAttention::backward_to_entry(BodyCall& call) const {
  Pass& pass = call.pass;
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dcontext =
      pass.scratch_rows(config_.dtype, config_.local_heads() * config_.head_size);
  projection_.backward_input(pass, dcontext, call.exit_gradient);
  projection_adapters_.backward_input(pass, dcontext, call.exit_gradient, call.saved);
  AttentionCore::Heads heads;
  if (!context_attention_ || !context_attention_->saves_heads())
    heads = position_again(pass, call.saved);
  const AttentionCore::Heads raw_gradients = split(call.saved[dqkv_output_]);
  const AttentionCore::Heads gradients = with_normed_scratch(pass, raw_gradients);
  attend_backward(call, gradients, dcontext, heads);
  if (rotary_) {
    rotary_->backward(pass, gradients.query);
    rotary_->backward(pass, gradients.key);
  }
  if (query_norm_) {
    const AttentionCore::Heads raw = split(call.saved[qkv_output_]);
    query_norm_->backward_input(pass, raw_gradients.query, gradients.query, raw.query, call.saved);
    key_norm_->backward_input(pass, raw_gradients.key, gradients.key, raw.key, call.saved);
  }
}

void SelfAttention::attend_backward(BodyCall& call, const AttentionCore::Heads& gradients,
                                    const Tensor& dcontext,
                                    const AttentionCore::Heads& heads) const {
  Pass& pass = call.pass;
  if (context_attention_)
    return context_attention_->backward(pass, core_, gradients, dcontext, heads, call.saved);
  const RowCoordinates& rows = pass.rows();
  AttentionCore::Bias bias;
  if (bias_) {
    const std::int64_t sequence = pass.shape.sequence;
    bias = {.values = bias_->bias(pass, sequence, sequence, 0),
            .gradient = bias_->zeros(pass, sequence, sequence)};
  }
  core_.backward(pass, gradients, dcontext, heads, {.query = rows, .key = rows}, bias, call.saved);
  if (bias_) bias_->backward_input(pass, bias.gradient, call.saved);
}

void SelfAttention::entry_input_gradient(BodyCall& call, const Tensor& dentered) const {
  qkv_.backward_input(call.pass, dentered, call.saved[dqkv_output_]);
  qkv_adapters_.backward_input(call.pass, dentered, call.saved[dqkv_output_], call.saved);
}

void SelfAttention::entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                          const Gradients& gradients) const {
  qkv_.backward_weight(call.pass, call.saved[dqkv_output_], entered, gradients);
  qkv_adapters_.backward_weight(call.pass, call.saved[dqkv_output_], entered, call.saved,
                                gradients);
  if (query_norm_) {
    query_norm_->backward_weight(call.pass, call.saved, gradients);
    key_norm_->backward_weight(call.pass, call.saved, gradients);
  }
}

void SelfAttention::exit_weight_gradient(BodyCall& call, const Gradients& gradients) const {
  const Tensor context = core_.context(call.saved);
  projection_.backward_weight(call.pass, call.exit_gradient, context, gradients);
  projection_adapters_.backward_weight(call.pass, call.exit_gradient, context, call.saved,
                                       gradients);
  if (bias_) bias_->backward_weight(call.pass, call.saved, gradients);
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
