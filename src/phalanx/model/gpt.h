#pragma once
// GPT as Megatron's: pre-norm layers, learned positions, tied output embedding, padded vocabulary,
// initial weights normal(0, s) with the residual projections scaled by 1 / sqrt(2 L).

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/model/model.h"
#include "phalanx/nn/config.h"

namespace phalanx {

struct GptConfig {
  nn::TransformerConfig transformer;
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  std::int64_t max_positions = 0;
  // Without a learned table the layers have rotary positions, or there are none; max_positions is
  // then only the longest sequence allowed.
  bool position_table = true;
  bool tied_embedding = true;
  RecomputePlan recompute;
};

// A chunk of layers [first_layer, first_layer + num_layers), optionally with the embedding and with
// the head.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool embedding = false;
  bool head = false;
};

// The next chunk of the rank whose parameters are in `table`: the chunk's are appended in global
// parameter order. A tied head uses the word table of this rank, in this or an earlier chunk, or
// adds it.
Chunk build_gpt_chunk(const GptConfig& config, const ChunkRange& range, nn::ParamTable& table);

// Parameters without vocabulary padding: 12 L h^2 (1 + 13 / (12 h)) + (V + P) h + 2 h for f = 4 h;
// of a gated MLP, RMSNorm, rotary positions, no biases and q = heads * head size, kv = groups *
// head size: L (h (q + 2 kv) + q h + 3 h f + 2 h) + h + V h, or 2 V h where untied.
std::int64_t gpt_parameters(const GptConfig& config);

// Floating-point operations of the model for one token, forward and backward, with full attention
// over `sequence` positions (the convention of performance tables): 6 per matrix weight and 12 L s
// (heads * head size). Of experts those that compute a token count. Where a window is below the
// sequence, the keys that rows see are counted instead of s for each: min(i + 1, window) of row i.
double gpt_flops_per_token(const GptConfig& config, std::int64_t sequence);

class GptModel final : public Model {
 public:
  // Samples of `sequence` tokens.
  GptModel(GptConfig config, std::int64_t sequence)
      : config_(std::move(config)), sequence_(sequence) {}

  const GptConfig& config() const { return config_; }

  std::unique_ptr<const Model> placed(const ModelPlace& place) const override;
  const nn::TransformerConfig& transformer() const override { return config_.transformer; }
  VocabularySize vocabulary() const override {
    return {.ids = config_.vocabulary, .padded = config_.padded_vocabulary};
  }
  BatchSchema batch_schema() const override;
  nn::RowPatterns row_patterns() const override;
  std::vector<LossSpec> losses() const override;
  std::vector<AuxiliaryLossSpec> auxiliary_losses() const override;
  std::int64_t active_parameters() const override;
  StageRange whole() const override;
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  std::int64_t tokens_per_sample() const override { return sequence_; }
  double flops_per_sample() const override { return flops_of_document(sequence_); }
  double flops_of_document(std::int64_t tokens) const override;

 private:
  GptConfig config_;
  std::int64_t sequence_;
};

}  // namespace phalanx
