#include "phalanx/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/philox.h"

namespace phalanx {

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature)) {
    throw ConfigError("--temperature {} must be at least 0", options.temperature);
  }
  if (options.top_k < 0) throw ConfigError("--top-k {} must not be negative", options.top_k);
  if (!(options.top_p >= 0.0 && options.top_p <= 1.0)) {
    throw ConfigError("--top-p {} must be between 0 and 1", options.top_p);
  }
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t position) {
  PHALANX_CHECK(!logits.empty(), "no logits");
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  if (options.temperature == 0.0) return *std::min_element(ids.begin(), ids.end(), more_likely);
  std::sort(ids.begin(), ids.end(), more_likely);
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < ids.size()) {
    ids.resize(static_cast<std::size_t>(options.top_k));
  }
  const double largest = logits[static_cast<std::size_t>(ids[0])];
  std::vector<double> cumulative;
  double sum = 0.0;
  for (const std::int32_t id : ids) {
    sum += std::exp((logits[static_cast<std::size_t>(id)] - largest) / options.temperature);
    cumulative.push_back(sum);
  }
  std::size_t kept = ids.size();
  if (options.top_p > 0.0 && options.top_p < 1.0) {
    // The smallest set of most likely tokens that reaches the mass.
    const auto end = std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * sum);
    kept = std::min<std::size_t>(static_cast<std::size_t>(end - cumulative.begin()) + 1, kept);
  }
  const PhiloxWords words = philox4x32(
      random_key(options.seed, RandomPurpose::kSampling),
      {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0});
  const double drawn = uniform_double(words[0], words[1]) * cumulative[kept - 1];
  const auto chosen = std::upper_bound(
      cumulative.begin(), cumulative.begin() + static_cast<std::ptrdiff_t>(kept), drawn);
  const auto index =
      std::min<std::size_t>(static_cast<std::size_t>(chosen - cumulative.begin()), kept - 1);
  return ids[index];
}

}  // namespace phalanx
