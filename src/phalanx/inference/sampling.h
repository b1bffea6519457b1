#pragma once
// The choice of the next token from logits: a penalty on what was there already (Keskar et al.,
// CTRL, 2019), temperature, then top-k, top-p (nucleus; Holtzman et al., 2020) and min-p (Nguyen et
// al., 2024). Seeded: the number drawn for a position is a function of (seed, position) alone.

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

// ConfigError naming the flag that is out of range.
void check(const SamplingOptions& options);

// Scores of tokens that are in `seen` are divided by the penalty where they are positive, else
// multiplied with it, each once.
void penalise_repetition(std::span<float> scores, double penalty,
                         std::span<const std::int32_t> seen);

// The ids of the `count` largest scores (all, if there are not so many), the largest first; ties go
// to the lower id. DataError where a score is not a number.
std::vector<std::int32_t> most_likely(std::span<const float> scores, std::int64_t count);

// The id chosen for `position`; ties go to the lower id. `logits` has one value for each id of the
// vocabulary; `seen` are the tokens before, for the penalty.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t position, std::span<const std::int32_t> seen = {});

}  // namespace phalanx
