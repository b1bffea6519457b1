// T5: an encoder reads a text with holes, a decoder says what was in them.

#include <array>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// Derives sizes that the flags leave open, and checks what both stacks must have in common.
void resolve_decoder(TrainConfig& c) {
  ModelConfig& m = c.model;
  const bool is_relative = m.position_embedding_type == "relative";
  if (!is_relative &&
      (m.relative_attention_num_buckets != ModelConfig{}.relative_attention_num_buckets ||
       m.relative_attention_max_distance != ModelConfig{}.relative_attention_max_distance)) {
    throw ConfigError(
        "--relative-attention-num-buckets and --relative-attention-max-distance need "
        "--position-embedding-type relative");
  }
  if (m.decoder_num_layers == 0) m.decoder_num_layers = m.num_layers;
  if (c.data.decoder_seq_length == 0) {
    throw ConfigError("--decoder-seq-length must be given: the tokens that the decoder reads");
  }
  if (!is_relative && m.max_position_embeddings < c.data.decoder_seq_length) {
    throw ConfigError(
        "--max-position-embeddings {} is below --decoder-seq-length {}: raise the "
        "first",
        m.max_position_embeddings, c.data.decoder_seq_length);
  }
  if (!is_relative) return;
  // The encoder gives half of the buckets to each side, and half of these to single distances.
  if (m.relative_attention_num_buckets % 4 != 0) {
    throw ConfigError("--relative-attention-num-buckets {} is not a multiple of 4",
                      m.relative_attention_num_buckets);
  }
  if (m.relative_attention_max_distance <= m.relative_attention_num_buckets / 2) {
    throw ConfigError(
        "--relative-attention-max-distance {} must be above {}, the distances of the decoder that "
        "have one of --relative-attention-num-buckets {} each",
        m.relative_attention_max_distance, m.relative_attention_num_buckets / 2,
        m.relative_attention_num_buckets);
  }
}

constexpr auto kT5Defaults =
    std::to_array<ModelFamily::Default>({{"--tokenizer-type", "BertWordPieceLowerCase"}});

class T5Family final : public ModelFamily {
 public:
  std::string_view name() const override { return "t5"; }
  std::string_view title() const override { return "T5"; }
  std::span<const Default> defaults() const override { return kT5Defaults; }

  void resolve_model(TrainConfig& config) const override {
    resolve_decoder(config);
    if (config.model.num_query_groups != config.model.num_attention_heads) {
      throw ConfigError(
          "--group-query-attention: every head of a T5 has keys and values of its own, in cross "
          "attention too; leave it out");
    }
    const std::string& positions = config.model.position_embedding_type;
    if (positions != "learned_absolute" && positions != "relative") {
      throw ConfigError(
          "--position-embedding-type {}: a T5 has learned_absolute or relative positions; give one",
          positions);
    }
  }

  std::shared_ptr<const Model> model(const TrainConfig& config,
                                     std::int64_t vocabulary) const override {
    return std::make_shared<const T5Model>(t5_config(config, vocabulary));
  }
  std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                       const Tokenizer& tokenizer) const override {
    return t5_sources(config.data, seed, tokenizer, config.imported);
  }
};

}  // namespace

T5Config t5_config(const TrainConfig& c, std::int64_t tokenizer_size) {
  const std::int64_t vocabulary = model_vocabulary(c, tokenizer_size);
  return {.transformer = transformer_config(c),
          .encoder_layers = c.model.num_layers,
          .decoder_layers = c.model.decoder_num_layers,
          .vocabulary = vocabulary,
          .padded_vocabulary = padded_vocabulary(c, vocabulary),
          .max_positions = c.model.max_position_embeddings,
          .sequence = c.data.seq_length,
          .decoder_sequence = c.data.decoder_seq_length,
          .positions = c.model.position_embedding_type == "relative" ? T5Positions::kRelative
                                                                     : T5Positions::kLearned,
          .relative_buckets = c.model.relative_attention_num_buckets,
          .relative_max_distance = c.model.relative_attention_max_distance,
          .tied_embedding = !c.model.untie_embeddings_and_output_weights,
          .output_bias = !c.model.disable_output_bias,
          .output_scale = c.model.scale_decoder_output
                              ? 1.0 / std::sqrt(static_cast<double>(c.model.hidden_size))
                              : 1.0,
          .recompute = recompute_plan(c)};
}

std::shared_ptr<const ModelFamily> t5_family() { return std::make_shared<const T5Family>(); }

}  // namespace phalanx
