#include "activation_formulas.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/model/gpt.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabularyOfGpt2 = 50257;

bool is_full(const LayerCase& c) {
  return c.scheme == SavingScheme::kFull || c.scheme == SavingScheme::kDistributed;
}

// Ranks that the residual stream is cut over.
std::int64_t stream_shards(const LayerCase& c) { return c.sequence_parallel ? c.t : 1; }

}  // namespace

PublishedBytes published_bytes(const LayerCase& c) {
  const std::int64_t sbh = c.s * c.b * c.h;
  const std::int64_t scores = c.a * c.s * c.s * c.b;
  if (is_full(c)) {
    const bool cut = c.sequence_parallel || c.scheme == SavingScheme::kDistributed;
    return cut && c.t > 1 ? PublishedBytes{"2sbh/t", 2 * sbh / c.t}
                          : PublishedBytes{"2sbh", 2 * sbh};
  }
  const bool core = c.scheme == SavingScheme::kEverything;
  const std::int64_t core_bytes = core ? 5 * scores / c.t : 0;
  if (c.t == 1) return {core ? "sbh(34 + 5as/h)" : "34sbh", 34 * sbh + core_bytes};
  if (c.sequence_parallel) {
    return {core ? "sbh(34/t + 5as/ht)" : "34sbh/t", 34 * sbh / c.t + core_bytes};
  }
  return {core ? "sbh(10 + 24/t + 5as/ht)" : "sbh(10 + 24/t)",
          10 * sbh + 24 * sbh / c.t + core_bytes};
}

std::vector<SavingTerm> saving_terms(const LayerCase& c) {
  const std::int64_t sb = c.s * c.b;
  const std::int64_t stream = sb * c.h / stream_shards(c);
  const std::int64_t scores = c.a * c.s * c.s * c.b / c.t;
  const bool core = c.scheme == SavingScheme::kEverything;
  const bool fused = c.scheme == SavingScheme::kFused;
  const auto unless_full = [&](std::int64_t bytes) { return is_full(c) ? 0 : bytes; };
  return {{"norm outputs", unless_full(4 * stream)},
          {"masks of hidden dropout", unless_full(2 * stream)},
          {"GeLU output", unless_full(8 * sb * c.h / c.t)},
          {"mask of attention dropout", core ? scores : 0},
          {"probabilities after dropout", core ? 2 * scores : 0},
          {"norm statistics", unless_full(-16 * sb / stream_shards(c))},
          {"log-sum-exp", fused ? -4 * c.a * sb / c.t : 0}};
}

std::string name_of(const LayerCase& c) {
  std::string name = c.t == 1              ? "one rank"
                     : c.sequence_parallel ? "tensor and sequence parallel"
                                           : "tensor parallel";
  switch (c.scheme) {
    case SavingScheme::kEverything:
      return name + ", unfused attention";
    case SavingScheme::kFused:
      return name + ", fused attention";
    case SavingScheme::kSelective:
      return name + ", selective recomputation";
    case SavingScheme::kFull:
      return name + ", full recomputation";
    case SavingScheme::kDistributed:
      return name + ", full recomputation, inputs distributed";
  }
  return name;
}

TrainConfig config_of(const LayerCase& c) {
  TrainConfig config;
  config.model.num_layers = 2;
  config.model.hidden_size = c.h;
  config.model.num_attention_heads = c.a;
  config.data.seq_length = c.s;
  config.model.max_position_embeddings = c.s;
  config.layout.micro_batch_size = c.b;
  config.model.bf16 = true;
  config.layout.threads_per_rank = 1;
  config.layout.world_size = c.t;
  config.layout.tensor_model_parallel_size = c.t;
  config.layout.sequence_parallel = c.sequence_parallel;
  config.model.attention_backend =
      c.scheme == SavingScheme::kEverything || c.scheme == SavingScheme::kSelective ? "unfused"
                                                                                    : "fused";
  if (c.scheme == SavingScheme::kSelective) config.layout.recompute_granularity = "selective";
  if (is_full(c)) {
    config.layout.recompute_granularity = "full";
    config.layout.recompute_method = "uniform";
    config.layout.distribute_saved_activations = c.scheme == SavingScheme::kDistributed;
  }
  resolve(config, false);
  return config;
}

namespace {

// Of each of the two layers of a model.
std::int64_t saved_bytes(const GptConfig& model, const nn::BatchShape& shape) {
  nn::ParamTable table;
  const Chunk chunk = build_gpt_chunk(model, {0, model.transformer.num_layers, true, true}, table);
  // Units: the embedding, two layers, the head.
  std::vector<std::int64_t> of_unit(4, 0);
  for (const SavedTensor& block : chunk.saved_tensors(shape, false)) {
    const bool is_held =
        block.born.pass == nn::PassKind::kForward && block.last.pass != nn::PassKind::kForward;
    if (is_held) of_unit[static_cast<std::size_t>(block.last.unit)] += block.bytes();
  }
  PHALANX_CHECK(of_unit[1] == of_unit[2], "layers save {} and {} bytes", of_unit[1], of_unit[2]);
  return of_unit[1];
}

}  // namespace

std::int64_t saved_bytes(const LayerCase& c) {
  return saved_bytes(gpt_config(config_of(c), kVocabularyOfGpt2),
                     {.sequence = c.s, .micro_batch = c.b, .sequence_shards = stream_shards(c)});
}

std::int64_t formula_bytes(const GatedLayer& l) {
  const std::int64_t q = l.heads * l.head_size;
  const std::int64_t kv = std::max(l.groups / l.t, std::int64_t{1}) * l.head_size;
  const std::int64_t stream = (4 * l.h + 8) / (l.sequence_parallel ? l.t : 1);
  return stream + (4 * q + 4 * l.f + 4 * l.heads) / l.t + 4 * kv;
}

std::int64_t bytes_of_everything(const GatedLayer& l) {
  const std::int64_t q = l.heads * l.head_size;
  const std::int64_t kv = l.groups * l.head_size;
  return 8 * l.h + 2 * (q + 2 * kv) + 2 * q + 6 * l.f + 4 * l.heads;
}

std::int64_t saved_bytes_of_token(const GatedLayer& l) {
  constexpr std::int64_t kTokens = 64;
  LayerCase plain{.s = kTokens,
                  .b = 1,
                  .h = l.h,
                  .a = l.heads,
                  .t = l.t,
                  .sequence_parallel = l.sequence_parallel,
                  .scheme = SavingScheme::kFused};
  GptConfig model = gpt_config(config_of(plain), kVocabularyOfGpt2);
  nn::TransformerConfig& layer = model.transformer;
  layer.query_groups = l.groups;
  layer.head_size = l.head_size;
  layer.ffn_hidden = l.f;
  layer.norm = nn::NormKind::kRmsNorm;
  layer.activation = ops::ActivationKind::kSilu;
  layer.gated = true;
  layer.linear_bias = false;
  layer.qkv_bias = false;
  layer.hidden_dropout = 0.0;
  layer.attention_dropout = 0.0;
  const std::int64_t bytes = saved_bytes(
      model,
      {.sequence = kTokens, .micro_batch = 1, .sequence_shards = l.sequence_parallel ? l.t : 1});
  PHALANX_CHECK(bytes % kTokens == 0, "{} bytes of {} tokens", bytes, kTokens);
  return bytes / kTokens;
}

}  // namespace phalanx
