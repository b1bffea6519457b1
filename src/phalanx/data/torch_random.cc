#include "phalanx/data/torch_random.h"

#include <numeric>
#include <random>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

std::vector<std::uint32_t> torch_permutation(std::int64_t n, std::uint64_t seed) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  if (n > kMost) throw ConfigError("{} samples are more than can be permuted (4,294,967,296)", n);
  PHALANX_CHECK(n >= 0, "a permutation of {}", n);
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  std::vector<std::uint32_t> values(static_cast<std::size_t>(n));
  if (n < kTorchLargePermutation) {
    std::iota(values.begin(), values.end(), 0U);
    for (std::int64_t i = 0; i < n - 1; ++i) {
      const auto step = static_cast<std::int64_t>(engine()) % (n - i);
      std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(i + step)]);
    }
    return values;
  }
  // Inside out, of 64-bit draws.
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) {
    const std::uint64_t high = engine();
    const std::uint64_t draw = high << 32 | engine();
    const std::uint64_t place = draw % (i + 1);
    values[i] = values[place];
    values[place] = static_cast<std::uint32_t>(i);
  }
  return values;
}

}  // namespace phalanx
