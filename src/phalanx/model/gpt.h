#pragma once
// GPT as Megatron's: pre-norm layers, learned positions, tied output embedding, padded vocabulary,
// initial weights normal(0, s) with the residual projections scaled by 1 / sqrt(2 L).

#include <cstdint>

#include "phalanx/model/chunk.h"
#include "phalanx/nn/config.h"

namespace phalanx {

struct GptConfig {
  nn::TransformerConfig transformer;
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  std::int64_t max_positions = 0;
  bool tied_embedding = true;
  RecomputePlan recompute;
};

// A chunk of layers [first_layer, first_layer + num_layers), with the embedding in front and the
// head behind on demand.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool embedding = false;
  bool head = false;
  bool tied_elsewhere = false;  // of an embedding: the head that it is tied to is on another rank
};

// The next chunk of the rank whose parameters are in `table`: the chunk's are appended in global
// parameter order. A tied head uses the word table of this rank, in this or an earlier chunk; where
// there is none it has a copy of its own (EmbeddingCopy::kLast).
Chunk build_gpt_chunk(const GptConfig& config, const ChunkRange& range, nn::ParamTable& table);

// Parameters without vocabulary padding: 12 L h^2 (1 + 13 / (12 h)) + (V + P) h + 2 h for f = 4 h.
std::int64_t gpt_parameters(const GptConfig& config);

// Floating-point operations of the model for one token, forward and backward, with full attention
// over `sequence` positions (the convention of performance tables): 6 per matrix weight and 12 L s
// (heads * head size).
double gpt_flops_per_token(const GptConfig& config, std::int64_t sequence);

}  // namespace phalanx
