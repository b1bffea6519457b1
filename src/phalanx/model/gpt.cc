#include "phalanx/model/gpt.h"

#include <algorithm>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/layer_weights.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx {
namespace {

std::unique_ptr<nn::Unit> make_embedding(const GptConfig& config, nn::ParamTable& table) {
  const BatchSchema batch = gpt_batch_schema(1);
  return std::make_unique<nn::Embedding>(
      table, config.vocabulary, config.padded_vocabulary,
      config.position_table ? config.max_positions : 0,
      nn::EmbeddingSharing{.words = config.tied_embedding},
      nn::EmbeddingColumns{.tokens = batch.index("tokens"),
                           .position_ids = batch.index("position_ids")},
      config.transformer);
}

std::unique_ptr<nn::Unit> make_head(const GptConfig& config, nn::ParamTable& table) {
  using Output = nn::LanguageModelHead::Output;
  const BatchSchema batch = gpt_batch_schema(1);
  return std::make_unique<nn::LanguageModelHead>(
      table, config.tied_embedding ? Output::kTied : Output::kOwn, config.vocabulary,
      config.padded_vocabulary,
      nn::TargetColumns{.labels = batch.index("labels"), .loss_mask = batch.index("loss_mask")},
      config.transformer);
}

// Megatron's names, as scripts read them.
const char* name_of(nn::RouterLoss::Kind kind) {
  switch (kind) {
    case nn::RouterLoss::Kind::kBalance:
      return "load_balancing_loss";
    case nn::RouterLoss::Kind::kSequenceBalance:
      return "seq_load_balancing_loss";
    case nn::RouterLoss::Kind::kGlobalBalance:
      return "global_load_balancing_loss";
    case nn::RouterLoss::Kind::kLogits:
      return "z_loss";
  }
  return "";
}

// Weights of the MLPs of all layers that a row is multiplied with.
double mlp_weights_of_layers(const nn::TransformerConfig& config) {
  const nn::ExpertSettings& experts = config.experts;
  const std::int64_t sparse = experts.num_layers(config.num_layers);
  return static_cast<double>(config.num_layers - sparse) * mlp_weights(config) +
         static_cast<double>(sparse) * expert_weights(config);
}

}  // namespace

Chunk build_gpt_chunk(const GptConfig& config, const ChunkRange& range, nn::ParamTable& table) {
  table.begin_chunk();
  nn::TransformerConfig layers = config.transformer;
  layers.position_column = gpt_batch_schema(1).index("position_ids");
  if (layers.max_positions == 0) layers.max_positions = config.max_positions;
  std::vector<std::unique_ptr<nn::Unit>> units;
  if (range.embedding) units.push_back(make_embedding(config, table));
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(
        std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i, layers));
  }
  if (range.head) units.push_back(make_head(config, table));
  return Chunk(std::move(units), config.recompute);
}

std::int64_t gpt_parameters(const GptConfig& config) {
  nn::ParamTable table;
  build_gpt_chunk(config, {0, config.transformer.num_layers, true, true}, table);
  std::int64_t count = 0;
  for (const auto& spec : table.specs()) count += spec.is_state ? 0 : spec.global_shape.count();
  return count;
}

double gpt_flops_per_token(const GptConfig& config, std::int64_t sequence) {
  const auto& t = config.transformer;
  const auto context = static_cast<double>(t.heads * t.head_size);
  const auto qkv = static_cast<double>((t.heads + 2 * t.query_groups) * t.head_size);
  const auto h = static_cast<double>(t.hidden);
  const auto s = static_cast<double>(sequence);
  const double attention = h * qkv + h * context;
  // Keys that the rows of a sample see, over all layers.
  double keys = 0.0;
  for (std::int64_t i = 0; i < t.num_layers; ++i) {
    const std::int64_t window = t.window_of(i);
    const auto w = static_cast<double>(window);
    keys += window > 0 && window < sequence ? w * (w + 1.0) / 2.0 + (s - w) * w : s * s;
  }
  return 6.0 * (static_cast<double>(t.num_layers) * attention + mlp_weights_of_layers(t) +
                adapter_weights(t) + h * static_cast<double>(config.padded_vocabulary)) +
         12.0 * context * (keys / s);
}

std::unique_ptr<const Model> GptModel::placed(const ModelPlace& place) const {
  GptConfig config = config_;
  config.transformer.tensor.rank = place.tensor_rank;
  config.transformer.expert_parallel = place.experts;
  return std::make_unique<const GptModel>(std::move(config), sequence_);
}

BatchSchema GptModel::batch_schema() const { return gpt_batch_schema(sequence_); }

// A sample is one piece of text, padded at its end with rows of the same document.
nn::RowPatterns GptModel::row_patterns() const {
  return {RowPattern{.consecutive = true, .one_document = !config_.transformer.mask_documents}};
}

std::vector<LossSpec> GptModel::losses() const {
  return {{.name = "lm loss", .mask = "loss_mask"}};
}

std::vector<AuxiliaryLossSpec> GptModel::auxiliary_losses() const {
  const nn::ExpertSettings& experts = config_.transformer.experts;
  std::vector<AuxiliaryLossSpec> losses;
  for (const nn::RouterLoss& loss : experts.losses) {
    losses.push_back(
        {.name = name_of(loss.kind), .layers = experts.num_layers(config_.transformer.num_layers)});
  }
  return losses;
}

std::int64_t GptModel::active_parameters() const {
  const nn::TransformerConfig& t = config_.transformer;
  const std::int64_t fc1 = (t.gated ? 2 : 1) * t.experts.ffn_hidden;
  const std::int64_t weights = (fc1 + t.experts.ffn_hidden) * t.hidden;
  const std::int64_t expert = weights + (t.linear_bias ? fc1 + t.hidden : 0);
  const std::int64_t idle = t.experts.experts - t.experts.chosen;
  const std::int64_t layers = t.experts.num_layers(t.num_layers);
  return parameters() - layers * idle * expert;
}

StageRange GptModel::whole() const {
  return {.has_embedding = true, .num_layers = config_.transformer.num_layers, .has_head = true};
}

Chunk GptModel::build_chunk(const StageRange& range, nn::ParamTable& table) const {
  GptConfig config = config_;
  config.transformer.max_positions = std::min(config.max_positions, sequence_);
  return build_gpt_chunk(config,
                         {.first_layer = range.first_layer,
                          .num_layers = range.num_layers,
                          .embedding = range.has_embedding,
                          .head = range.has_head},
                         table);
}

double GptModel::flops_of_document(std::int64_t tokens) const {
  return static_cast<double>(tokens) * gpt_flops_per_token(config_, tokens);
}

}  // namespace phalanx
