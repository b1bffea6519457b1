#include "phalanx/model/t5.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/layer_weights.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/encoder_norm.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx {
namespace {

using nn::Sequence;
using nn::TransformerConfig;

TransformerConfig stack_config(const T5Config& config, Sequence sequence, const char* name) {
  TransformerConfig stack = config.transformer;
  stack.sequence = sequence;
  stack.stack = name;
  stack.causal = sequence == Sequence::kDecoder;
  stack.mask_documents = false;
  if (config.positions == T5Positions::kRelative) {
    stack.relative_buckets = {.count = config.relative_buckets,
                              .max_distance = config.relative_max_distance,
                              .bidirectional = !stack.causal};
  }
  return stack;
}

std::unique_ptr<nn::Unit> make_t5_head(const T5Config& config, const TransformerConfig& decoder,
                                       nn::ParamTable& table) {
  const BatchSchema batch = t5_batch_schema(1, 1);
  return std::make_unique<nn::LanguageModelHead>(
      table,
      nn::VocabularyOptions{
          .vocabulary = config.vocabulary,
          .padded_vocabulary = config.padded_vocabulary,
          .tied = config.tied_embedding,
          .name = "lm_head.output_layer",
          .bias = config.tied_embedding && config.output_bias,
          .row_scale = config.output_scale,
          .columns = {.labels = batch.index("labels"), .loss_mask = batch.index("loss_mask")}},
      decoder);
}

}  // namespace

TransformerConfig t5_encoder_config(const T5Config& config) {
  return stack_config(config, Sequence::kEncoder, "encoder");
}

TransformerConfig t5_decoder_config(const T5Config& config) {
  return stack_config(config, Sequence::kDecoder, "decoder");
}

T5Model::T5Model(T5Config config)
    : config_(std::move(config)),
      encoder_(t5_encoder_config(config_)),
      decoder_(t5_decoder_config(config_)) {
  const std::int64_t longest = std::max(config_.sequence, config_.decoder_sequence);
  PHALANX_CHECK(config_.positions != T5Positions::kLearned || longest <= config_.max_positions,
                "{} tokens in {} positions", longest, config_.max_positions);
}

std::unique_ptr<const Model> T5Model::placed(const ModelPlace& place) const {
  T5Config config = config_;
  config.transformer.tensor.rank = place.tensor_rank;
  return std::make_unique<T5Model>(std::move(config));
}

BatchSchema T5Model::batch_schema() const {
  return t5_batch_schema(config_.sequence, config_.decoder_sequence);
}

std::vector<LossSpec> T5Model::losses() const { return {{.name = "lm loss", .mask = "loss_mask"}}; }

StageRange T5Model::whole() const {
  return encoder_decoder_stages(
             {.encoder_layers = config_.encoder_layers, .decoder_layers = config_.decoder_layers})
      .front();
}

std::unique_ptr<nn::Unit> T5Model::make_embedding(const TransformerConfig& stack,
                                                  nn::ParamTable& table) const {
  const bool is_decoder = stack.sequence == Sequence::kDecoder;
  const BatchSchema batch = t5_batch_schema(1, 1);
  const std::string prefix = is_decoder ? "decoder_" : "";
  return std::make_unique<nn::Embedding>(
      table, config_.vocabulary, config_.padded_vocabulary,
      config_.positions == T5Positions::kLearned ? config_.max_positions : 0,
      nn::EmbeddingSharing{.words = true,
                           .positions = true,
                           .role = is_decoder ? kDecoderEmbeddingRole : kEmbeddingRole,
                           .sequence = static_cast<int>(stack.sequence)},
      nn::EmbeddingColumns{.tokens = batch.index(prefix + "tokens"),
                           .position_ids = batch.index(prefix + "position_ids")},
      stack);
}

void T5Model::add_encoder(const StageRange& range, nn::ParamTable& table, Units& units) const {
  if (range.has_embedding) units.push_back(make_embedding(encoder_, table));
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(
        std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i, encoder_));
  }
  if (range.has_encoder_norm) units.push_back(std::make_unique<nn::EncoderNorm>(table, encoder_));
}

void T5Model::add_decoder(const StageRange& range, nn::ParamTable& table, Units& units) const {
  if (range.has_decoder_embedding) units.push_back(make_embedding(decoder_, table));
  for (std::int64_t i = 0; i < range.num_decoder_layers; ++i) {
    const std::int64_t layer = range.first_decoder_layer + i;
    // No unit after the last layer reads the encoder's output.
    const auto encoder_output = layer + 1 == config_.decoder_layers ? nn::EncoderOutput::kReadLast
                                                                    : nn::EncoderOutput::kRead;
    units.push_back(
        std::make_unique<nn::TransformerLayer>(table, layer, i, decoder_, encoder_output));
  }
  if (range.has_head) units.push_back(make_t5_head(config_, decoder_, table));
}

Chunk T5Model::build_chunk(const StageRange& range, nn::ParamTable& table) const {
  table.begin_chunk();
  Units units;
  add_encoder(range, table, units);
  add_decoder(range, table, units);
  return Chunk(std::move(units), config_.recompute);
}

double T5Model::flops_per_sample() const {
  const auto context = static_cast<double>(encoder_.heads * encoder_.head_size);
  const auto h = static_cast<double>(encoder_.hidden);
  const auto encoder_rows = static_cast<double>(config_.sequence);
  const auto decoder_rows = static_cast<double>(config_.decoder_sequence);
  const double self = 4.0 * h * context;  // weights: qkv and proj
  const double mlp = mlp_weights(encoder_);
  const double cross = 2.0 * h * context;  // q and proj; kv has as many
  const double encoder =
      6.0 * encoder_rows * (self + mlp) + 12.0 * context * encoder_rows * encoder_rows;
  const double decoder = 6.0 * decoder_rows * (self + cross + mlp) + 6.0 * encoder_rows * cross +
                         12.0 * context * decoder_rows * (decoder_rows + encoder_rows);
  const double head = 6.0 * decoder_rows * h * static_cast<double>(config_.padded_vocabulary);
  return static_cast<double>(config_.encoder_layers) * encoder +
         static_cast<double>(config_.decoder_layers) * decoder + head;
}

std::int64_t t5_parameters(const T5Config& config) { return T5Model(config).parameters(); }

}  // namespace phalanx
