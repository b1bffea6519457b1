#pragma once
// Activation bytes of a GPT layer, 16-bit, as published (Korthikanti et al., Reducing Activation
// Recomputation in Large Transformer Models, 2022), and what Phalanx saves more or less, term by
// term. Symbols: s sequence, b microbatch, h hidden, a heads, t tensor-parallel ranks; the MLP is 4
// h wide.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"

namespace phalanx {

enum class SavingScheme : std::uint8_t {
  kEverything,   // with unfused attention
  kFused,        // fused attention: nothing of size s x s
  kSelective,    // unfused, core attention recomputed
  kFull,         // full recomputation, layer by layer
  kDistributed,  // likewise, layer inputs distributed over tensor-parallel ranks
};

struct LayerCase {
  std::int64_t s = 0, b = 0, h = 0, a = 0, t = 1;
  bool sequence_parallel = false;
  SavingScheme scheme = SavingScheme::kEverything;
};

// One rank's bytes for one layer and microbatch.
struct PublishedBytes {
  std::string formula;
  std::int64_t bytes = 0;
};
PublishedBytes published_bytes(const LayerCase& layer);

// What the published formula counts and Phalanx does not save; below 0: the other way round.
struct SavingTerm {
  std::string name;
  std::int64_t bytes = 0;
};
// Always the same terms, in the same order.
std::vector<SavingTerm> saving_terms(const LayerCase& layer);

// "tensor and sequence parallelism, selective recomputation".
std::string name_of(const LayerCase& layer);

// Two such layers in bf16, resolved.
TrainConfig config_of(const LayerCase& layer);
// What the program's chunk holds for each of these layers between its forward and its backward
// pass; the same for both.
std::int64_t saved_bytes(const LayerCase& layer);

// A layer as in Llama: RMSNorm, a gated MLP, no bias, no dropout; fused attention, 16 bits.
struct GatedLayer {
  std::string name;
  std::int64_t h = 0, heads = 0, groups = 0, head_size = 0, f = 0;
  std::int64_t t = 1;
  bool sequence_parallel = false;
};

// What a rank keeps of one token of it: 4h + 8, divided by t with sequence parallelism, and
// (2 (q + 2 kv) + 2 q + 4 f + 4 a) / t, where a rank has one group's kv at least.
std::int64_t formula_bytes(const GatedLayer& layer);
// Likewise, if norm and MLP kept their outputs too: 8 h + 2 (q + 2 kv) + 2 q + 6 f + 4 a, of one
// rank.
std::int64_t bytes_of_everything(const GatedLayer& layer);
// As the program plans it.
std::int64_t saved_bytes_of_token(const GatedLayer& layer);

}  // namespace phalanx
