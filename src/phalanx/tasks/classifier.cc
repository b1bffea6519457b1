#include "phalanx/tasks/classifier.h"

#include <array>

#include "phalanx/base/error.h"
#include "phalanx/nn/classification_head.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/tasks/classification_samples.h"

namespace phalanx {
namespace {

constexpr std::int64_t kSegments = 2;

}  // namespace

ClassifierModel::ClassifierModel(ClassifierConfig config) : config_(std::move(config)) {
  config_.bert.tied_embedding = false;
  PHALANX_CHECK(config_.classes > 1, "{} classes", config_.classes);
}

std::unique_ptr<const Model> ClassifierModel::placed(const ModelPlace& place) const {
  ClassifierConfig config = config_;
  config.bert.transformer.tensor.rank = place.tensor_rank;
  return std::make_unique<ClassifierModel>(std::move(config));
}

BatchSchema ClassifierModel::batch_schema() const {
  return classification_schema(config_.bert.sequence);
}

std::vector<LossSpec> ClassifierModel::losses() const {
  return {{.name = "lm loss", .mask = "loss_mask", .title = "classification loss"}};
}

StageRange ClassifierModel::whole() const {
  return one_stack_stages(std::array{config_.bert.transformer.num_layers}).front();
}

Chunk ClassifierModel::build_chunk(const StageRange& range, nn::ParamTable& table) const {
  const nn::TransformerConfig& transformer = config_.bert.transformer;
  const BatchSchema batch = batch_schema();
  table.begin_chunk();
  std::vector<std::unique_ptr<nn::Unit>> units;
  if (range.has_embedding) {
    const bool post_norm = transformer.norm_place == nn::NormPlace::kPost;
    units.push_back(std::make_unique<nn::Embedding>(
        table, config_.bert.vocabulary, config_.bert.padded_vocabulary, config_.bert.max_positions,
        nn::EmbeddingSharing{},
        nn::EmbeddingColumns{.tokens = batch.index("tokens"),
                             .position_ids = batch.index("position_ids"),
                             .types = batch.index("types")},
        transformer, nn::EmbeddingExtras{.token_types = kSegments, .norm = post_norm}));
  }
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(
        std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i, transformer));
  }
  if (range.has_head) {
    units.push_back(std::make_unique<nn::ClassificationHead>(
        table,
        nn::ClassificationHeadOptions{.classes = config_.classes,
                                      .labels = batch.index("label"),
                                      .loss_mask = batch.index("loss_mask")},
        transformer));
  }
  return Chunk(std::move(units), config_.bert.recompute);
}

double ClassifierModel::flops_per_sample() const {
  const nn::TransformerConfig& t = transformer();
  const auto s = static_cast<double>(config_.bert.sequence);
  const auto h = static_cast<double>(t.hidden);
  const auto context = static_cast<double>(t.heads * t.head_size);
  const auto qkv = static_cast<double>((t.heads + 2 * t.query_groups) * t.head_size);
  const auto layers = static_cast<double>(t.num_layers);
  const double layer = h * qkv + h * context + 2.0 * h * static_cast<double>(t.ffn_hidden);
  const double head = h * h + h * static_cast<double>(config_.classes);
  return s * layers * (6.0 * layer + 12.0 * s * context) + 6.0 * head;
}

}  // namespace phalanx
