#include "phalanx/data/numpy_random.h"

#include <bit>
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

}  // namespace phalanx
