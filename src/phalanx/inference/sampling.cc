#include "phalanx/inference/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/philox.h"

namespace phalanx {
namespace {

// Radix sort by the upper halves of the numbers; equal ones stay in order.
void sort_by_upper_half(std::vector<std::uint64_t>& keys) {
  constexpr int kBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kBits;
  std::vector<std::uint64_t> sorted(keys.size());
  for (int shift = 32; shift < 64; shift += kBits) {
    const auto digit = [shift](std::uint64_t key) { return (key >> shift) & (kDigits - 1); };
    std::array<std::size_t, kDigits> places{};
    for (const std::uint64_t key : keys) ++places[digit(key)];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), std::size_t{0});
    for (const std::uint64_t key : keys) sorted[places[digit(key)]++] = key;
    std::swap(keys, sorted);
  }
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature)) {
    throw ConfigError("--temperature {} must be at least 0", options.temperature);
  }
  if (options.top_k < 0) throw ConfigError("--top-k {} must not be negative", options.top_k);
  if (!(options.top_p >= 0.0 && options.top_p <= 1.0)) {
    throw ConfigError("--top-p {} must be between 0 and 1", options.top_p);
  }
  if (!(options.min_p >= 0.0 && options.min_p <= 1.0)) {
    throw ConfigError("--min-p {} must be between 0 and 1", options.min_p);
  }
  if (!(options.repetition_penalty > 0.0) || !std::isfinite(options.repetition_penalty)) {
    throw ConfigError("--repetition-penalty {} must be above 0", options.repetition_penalty);
  }
}

void penalise_repetition(std::span<float> scores, double penalty,
                         std::span<const std::int32_t> seen) {
  if (penalty == 1.0) return;
  const auto factor = static_cast<float>(penalty);
  for (const std::int32_t id : std::set(seen.begin(), seen.end())) {
    float& score = scores[static_cast<std::size_t>(id)];
    score = score > 0.0F ? score / factor : score * factor;
  }
}

std::vector<std::int32_t> most_likely(std::span<const float> scores, std::int64_t count) {
  // The upper half is an integer that is the smaller the greater the score, the lower half is the
  // id: one number sorts by both.
  std::vector<std::uint64_t> keys(scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) {
      throw DataError("the score of token {} is not a number: the weights are not sound", id);
    }
    const auto bits = std::bit_cast<std::uint32_t>(scores[id] + 0.0F);  // -0 becomes 0
    constexpr std::uint32_t kSign = 0x80000000U;
    const std::uint32_t rising = (bits & kSign) != 0 ? ~bits : bits | kSign;
    keys[id] = (static_cast<std::uint64_t>(~rising) << 32) | id;
  }
  const auto kept = std::min(keys.size(), static_cast<std::size_t>(count));
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(kept);
  constexpr std::size_t kMany = 2048;
  if (kept < keys.size()) std::nth_element(keys.begin(), end, keys.end());
  if (kept == keys.size() && kept >= kMany) {
    sort_by_upper_half(keys);
  } else {
    std::sort(keys.begin(), end);
  }
  std::vector<std::int32_t> ids;
  ids.reserve(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    ids.push_back(static_cast<std::int32_t>(keys[i] & 0xffffffffU));
  }
  return ids;
}

std::int32_t sample_token(std::span<const float> given, const SamplingOptions& options,
                          std::uint64_t position, std::span<const std::int32_t> seen) {
  PHALANX_CHECK(!given.empty(), "no logits");
  std::vector<float> logits(given.begin(), given.end());
  penalise_repetition(logits, options.repetition_penalty, seen);
  std::int64_t candidates = std::ssize(logits);
  if (options.top_k > 0) candidates = std::min(candidates, options.top_k);
  if (options.temperature == 0.0) candidates = 1;
  const std::vector<std::int32_t> ids = most_likely(logits, candidates);
  if (ids.size() == 1) return ids[0];
  const double largest = logits[static_cast<std::size_t>(ids[0])];
  std::vector<double> cumulative;
  double sum = 0.0;
  for (const std::int32_t id : ids) {
    sum += std::exp((logits[static_cast<std::size_t>(id)] - largest) / options.temperature);
    cumulative.push_back(sum);
  }
  std::size_t kept = ids.size();
  if (options.top_p > 0.0 && options.top_p < 1.0) {
    // The fewest most likely tokens whose probabilities add up to top_p.
    const auto end = std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * sum);
    kept = std::min<std::size_t>(static_cast<std::size_t>(end - cumulative.begin()) + 1, kept);
  }
  const auto too_unlikely = [&](std::int32_t id) {
    const double weight =
        std::exp((logits[static_cast<std::size_t>(id)] - largest) / options.temperature);
    return weight < options.min_p;
  };
  while (kept > 1 && too_unlikely(ids[kept - 1])) --kept;
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
