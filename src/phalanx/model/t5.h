#pragma once
// T5 as Megatron's (Raffel et al., Exploring the Limits of Transfer Learning, 2020;
// but with LayerNorm, biases and scaled scores unless the configuration says otherwise): an encoder
// over one sequence, a decoder over another that also reads the encoder's output, pre-norm, one
// word table for both embeddings and, where tied, the output; a bias of the logits only where tied.

#include <cstdint>

#include "phalanx/model/model.h"

namespace phalanx {

enum class T5Positions : std::uint8_t {
  kLearned,   // one table [max_positions, h] for both stacks
  kRelative,  // a table [buckets, heads] for each stack, added to the scores of
              // self attention
  kNone,
};

struct T5Config {
  // What both stacks have in common. num_layers, which scales the initial weights of output
  // projections, is the encoder's for both, as in Megatron.
  nn::TransformerConfig transformer;
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  std::int64_t max_positions = 0;
  std::int64_t sequence = 0;  // of the encoder
  std::int64_t decoder_sequence = 0;
  T5Positions positions = T5Positions::kLearned;
  std::int64_t relative_buckets = 32;
  std::int64_t relative_max_distance = 128;
  bool tied_embedding = true;
  bool output_bias = true;    // of the logits, where tied
  double output_scale = 1.0;  // the decoder's normed output is multiplied by it before the logits
  RecomputePlan recompute;
};

// The configuration of one stack: its names, its sequence, its mask, its position bias.
nn::TransformerConfig t5_encoder_config(const T5Config& config);
nn::TransformerConfig t5_decoder_config(const T5Config& config);

class T5Model final : public Model {
 public:
  explicit T5Model(T5Config config);

  const T5Config& config() const { return config_; }

  std::unique_ptr<const Model> placed(const ModelPlace& place) const override;
  const nn::TransformerConfig& transformer() const override { return encoder_; }
  VocabularySize vocabulary() const override {
    return {.ids = config_.vocabulary, .padded = config_.padded_vocabulary};
  }
  BatchSchema batch_schema() const override;
  // Padding has another document.
  nn::RowPatterns row_patterns() const override {
    return {RowPattern{.consecutive = true}, RowPattern{.consecutive = true}};
  }
  std::vector<LossSpec> losses() const override;
  StageRange whole() const override;
  // The units of a stage: its part of the encoder, then its part of the decoder.
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  // Of both sequences.
  std::int64_t tokens_per_sample() const override {
    return config_.sequence + config_.decoder_sequence;
  }
  // A row is multiplied with the weights of its own stack. The encoder's rows are also multiplied
  // with the weights of cross attention's keys and values, in each layer of the decoder.
  double flops_per_sample() const override;

 private:
  using Units = std::vector<std::unique_ptr<nn::Unit>>;
  std::unique_ptr<nn::Unit> make_embedding(const nn::TransformerConfig& stack,
                                           nn::ParamTable& table) const;
  void add_encoder(const StageRange& range, nn::ParamTable& table, Units& units) const;
  void add_decoder(const StageRange& range, nn::ParamTable& table, Units& units) const;

  T5Config config_;
  nn::TransformerConfig encoder_, decoder_;
};

// L_e (12 h^2 + 13 h) + L_d (16 h^2 + 19 h) + 4 h + V h + P h + V for f = 4 h and heads * head size
// = h: layers, final norms, words, learned positions, the logits' bias. Relative positions: 2
// buckets * heads instead of P h; not tied: V h instead of V. Without vocabulary padding.
std::int64_t t5_parameters(const T5Config& config);

}  // namespace phalanx
