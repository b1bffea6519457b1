#include "phalanx/data/numpy_random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "phalanx/base/error.h"

namespace phalanx {

double NumpyRandom::random_sample() {
  const std::uint32_t high = next_u32() >> 5;
  const std::uint32_t low = next_u32() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

std::uint64_t NumpyRandom::interval(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = std::numeric_limits<std::uint64_t>::max() >> std::countl_zero(max);
  const bool wide = max > std::numeric_limits<std::uint32_t>::max();
  while (true) {
    std::uint64_t draw = next_u32();
    if (wide) draw = draw << 32 | next_u32();
    draw &= mask;
    if (draw <= max) return draw;
  }
}

std::int64_t NumpyRandom::randint(std::int64_t low, std::int64_t high) {
  PHALANX_CHECK(low < high, "randint needs low < high, got {} and {}", low, high);
  const auto width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + interval(width - 1));
}

std::size_t NumpyRandom::choice(std::span<const double> cumulative) {
  const double draw = random_sample();
  const auto found = std::ranges::upper_bound(cumulative, draw);
  PHALANX_CHECK(found != cumulative.end(), "probabilities of a choice end at {}",
                cumulative.empty() ? 0.0 : cumulative.back());
  return static_cast<std::size_t>(found - cumulative.begin());
}

std::int64_t NumpyRandom::geometric(double probability) {
  PHALANX_CHECK(probability > 0.0 && probability <= 1.0, "tries that succeed with {}", probability);
  const double draw = random_sample();
  // NumPy inverts the distribution where that is faster, and adds up its terms otherwise.
  constexpr double kLeastSummed = 0.333333333333333333333333;
  if (probability < kLeastSummed) {
    const double tries = std::ceil(std::log1p(-draw) / std::log(1.0 - probability));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(tries));
  }
  std::int64_t tries = 1;
  double term = probability;
  double sum = term;
  while (draw > sum) {
    term *= 1.0 - probability;
    sum += term;
    ++tries;
  }
  return tries;
}

}  // namespace phalanx
