#include "phalanx/model/bert.h"

#include <array>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/layer_weights.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx {
namespace {

constexpr std::int64_t kSegments = 2;
constexpr std::int64_t kClasses = 2;

std::unique_ptr<nn::Unit> make_bert_head(const BertConfig& config, nn::ParamTable& table) {
  const BatchSchema batch = bert_batch_schema(1);
  nn::BertHeadOptions options;
  options.vocabulary = {
      .vocabulary = config.vocabulary,
      .padded_vocabulary = config.padded_vocabulary,
      .tied = config.tied_embedding,
      .bias = true,
      .columns = {.labels = batch.index("labels"), .loss_mask = batch.index("loss_mask")}};
  if (config.binary_head) options.binary_labels = batch.index("is_random");
  return std::make_unique<nn::BertHead>(table, options, config.transformer);
}

}  // namespace

std::unique_ptr<nn::Unit> make_bert_embedding(const BertConfig& config, nn::ParamTable& table) {
  const BatchSchema batch = bert_batch_schema(1);
  const bool post_norm = config.transformer.norm_place == nn::NormPlace::kPost;
  return std::make_unique<nn::Embedding>(
      table, config.vocabulary, config.padded_vocabulary, config.max_positions,
      nn::EmbeddingSharing{.words = config.tied_embedding},
      nn::EmbeddingColumns{.tokens = batch.index("tokens"),
                           .position_ids = batch.index("position_ids"),
                           .types = batch.index("types")},
      config.transformer,
      nn::EmbeddingExtras{.token_types = config.binary_head ? kSegments : 0, .norm = post_norm});
}

BertModel::BertModel(BertConfig config) : config_(std::move(config)) {
  PHALANX_CHECK(!config_.transformer.causal, "BERT's layers are bidirectional");
  PHALANX_CHECK(config_.sequence <= config_.max_positions, "{} tokens in {} positions",
                config_.sequence, config_.max_positions);
}

std::unique_ptr<const Model> BertModel::placed(const ModelPlace& place) const {
  BertConfig config = config_;
  config.transformer.tensor.rank = place.tensor_rank;
  return std::make_unique<BertModel>(std::move(config));
}

BatchSchema BertModel::batch_schema() const { return bert_batch_schema(config_.sequence); }

std::vector<LossSpec> BertModel::losses() const {
  std::vector<LossSpec> losses = {{.name = "lm loss", .mask = "loss_mask"}};
  if (config_.binary_head) losses.push_back({.name = "sop loss", .mask = ""});
  return losses;
}

StageRange BertModel::whole() const {
  return one_stack_stages(std::array{config_.transformer.num_layers}).front();
}

Chunk BertModel::build_chunk(const StageRange& range, nn::ParamTable& table) const {
  table.begin_chunk();
  std::vector<std::unique_ptr<nn::Unit>> units;
  if (range.has_embedding) {
    units.push_back(make_bert_embedding(config_, table));
  }
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i,
                                                           config_.transformer));
  }
  if (range.has_head) units.push_back(make_bert_head(config_, table));
  return Chunk(std::move(units), config_.recompute);
}

double BertModel::flops_per_sample() const {
  const nn::TransformerConfig& t = config_.transformer;
  const auto s = static_cast<double>(config_.sequence);
  const auto h = static_cast<double>(t.hidden);
  const auto context = static_cast<double>(t.heads * t.head_size);
  const auto qkv = static_cast<double>((t.heads + 2 * t.query_groups) * t.head_size);
  const auto layers = static_cast<double>(t.num_layers);
  const double layer = h * qkv + h * context + mlp_weights(t);
  const double head = h * h + h * static_cast<double>(config_.padded_vocabulary);
  const double binary = config_.binary_head ? h * h + h * static_cast<double>(kClasses) : 0.0;
  return s * (6.0 * (layers * layer + head) + 12.0 * layers * s * context) + 6.0 * binary;
}

std::int64_t bert_parameters(const BertConfig& config) { return BertModel(config).parameters(); }

}  // namespace phalanx
