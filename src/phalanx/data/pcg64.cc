#include "phalanx/data/pcg64.h"

#include <array>
#include <bit>

namespace phalanx {
namespace {

constexpr std::size_t kPoolWords = 4;
constexpr std::uint32_t kInitA = 0x43b0d7e5;
constexpr std::uint32_t kMultiplierA = 0x931e8875;
constexpr std::uint32_t kInitB = 0x8b51f9dd;
constexpr std::uint32_t kMultiplierB = 0x58f38ded;
constexpr std::uint32_t kMixLeft = 0xca01f9dd;
constexpr std::uint32_t kMixRight = 0x4973f715;
constexpr int kShift = 16;

using Pool = std::array<std::uint32_t, kPoolWords>;

std::uint32_t hashed(std::uint32_t value, std::uint32_t& constant) {
  value ^= constant;
  constant *= kMultiplierA;
  value *= constant;
  return value ^ value >> kShift;
}

std::uint32_t mixed(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t value = kMixLeft * x - kMixRight * y;
  return value ^ value >> kShift;
}

// numpy.random.SeedSequence(seed) of one word.
Pool seed_pool(std::uint32_t seed) {
  Pool pool{};
  std::uint32_t constant = kInitA;
  for (std::size_t i = 0; i < kPoolWords; ++i) pool[i] = hashed(i == 0 ? seed : 0, constant);
  for (std::size_t from = 0; from < kPoolWords; ++from) {
    for (std::size_t to = 0; to < kPoolWords; ++to) {
      if (from != to) pool[to] = mixed(pool[to], hashed(pool[from], constant));
    }
  }
  return pool;
}

// generate_state(4, uint64).
std::array<std::uint64_t, 4> seed_state(std::uint32_t seed) {
  const Pool pool = seed_pool(seed);
  std::array<std::uint64_t, 4> state{};
  std::uint32_t constant = kInitB;
  for (std::size_t i = 0; i < 2 * state.size(); ++i) {
    std::uint32_t value = pool[i % kPoolWords];
    value ^= constant;
    constant *= kMultiplierB;
    value *= constant;
    value ^= value >> kShift;
    state[i / 2] |= std::uint64_t{value} << (i % 2 * 32);
  }
  return state;
}

}  // namespace

Pcg64::Pcg64(std::uint32_t seed) {
  const auto words = seed_state(seed);
  const Wide start = Wide{words[0]} << 64 | words[1];
  const Wide stream = Wide{words[2]} << 64 | words[3];
  increment_ = stream << 1 | 1;
  step();
  state_ += start;
  step();
}

void Pcg64::step() {
  constexpr Wide kMultiplier = Wide{2549297995355413924U} << 64 | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t Pcg64::next_u64() {
  step();
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

std::uint32_t Pcg64::next_u32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const std::uint64_t draw = next_u64();
  has_half_ = true;
  half_ = static_cast<std::uint32_t>(draw >> 32);
  return static_cast<std::uint32_t>(draw);
}

std::uint32_t Pcg64::below(std::uint32_t bound) {
  std::uint64_t product = std::uint64_t{next_u32()} * bound;
  auto rest = static_cast<std::uint32_t>(product);
  if (rest < bound) {
    const std::uint32_t threshold = (0U - bound) % bound;
    while (rest < threshold) {
      product = std::uint64_t{next_u32()} * bound;
      rest = static_cast<std::uint32_t>(product);
    }
  }
  return static_cast<std::uint32_t>(product >> 32);
}

}  // namespace phalanx
