#pragma once
// The choice of the next token from logits: temperature, top-k, top-p (nucleus; Holtzman et al.,
// 2020). Seeded: the number drawn for a position is a function of (seed, position) alone.

#include <cstdint>
#include <span>

namespace phalanx {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the most likely token
  std::int64_t top_k = 0;    // 0: all
  double top_p = 0.0;        // 0: all
  std::uint64_t seed = 1234;
};

// ConfigError naming the flag that is out of range.
void check(const SamplingOptions& options);

// The id chosen for `position`; ties go to the lower id. `logits` has one value for each id of the
// vocabulary.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t position);

}  // namespace phalanx
