#pragma once
// The choice of the next token from logits: a penalty for tokens of the text so far (Keskar et al.,
// CTRL, 2019), temperature, then top-k, top-p (nucleus; Holtzman et al., 2020) and min-p (Nguyen et
// al., 2024). The random number of a position is a function of only (seed, position).

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

struct SamplingOptions {
  double temperature = 1.0;         // 0: the most likely token
  std::int64_t top_k = 0;           // 0: all
  double top_p = 0.0;               // 0: all
  double min_p = 0.0;               // of the most likely token's probability; 0: all
  double repetition_penalty = 1.0;  // 1: none
  std::uint64_t seed = 1234;
};

// ConfigError with the name of the flag that is out of range.
void check(const SamplingOptions& options);

// Divides the scores of tokens in `seen` by the penalty where they are positive, else multiplies
// them by it, each once.
void penalise_repetition(std::span<float> scores, double penalty,
                         std::span<const std::int32_t> seen);

// The ids of the `count` largest scores (or of all, if there are fewer), the largest first; of
// equal scores the lower id comes first. DataError where a score is not a number.
std::vector<std::int32_t> most_likely(std::span<const float> scores, std::int64_t count);

// The id chosen for `position`. `logits` has one value for each id of the vocabulary; `seen` are
// the tokens before, for the penalty.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t position, std::span<const std::int32_t> seen = {});

}  // namespace phalanx
