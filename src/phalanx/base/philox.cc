#include "phalanx/base/philox.h"

#include <cmath>
#include <numbers>

namespace phalanx {

PhiloxKey random_key(std::uint64_t seed, RandomPurpose purpose) {
  return {
      static_cast<std::uint32_t>(seed),
      static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) * 0xC2B2AE35U)};
}

std::uint64_t parameter_coordinate(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

namespace {

PhiloxWords parameter_words(PhiloxKey key, std::uint64_t parameter, std::uint64_t block) {
  return philox4x32(
      key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
            static_cast<std::uint32_t>(parameter), static_cast<std::uint32_t>(parameter >> 32)});
}

}  // namespace

std::array<double, 4> normal_block(PhiloxKey key, std::uint64_t parameter, std::uint64_t block) {
  const PhiloxWords words = parameter_words(key, parameter, block);
  std::array<double, 4> numbers{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * std::log((words[2 * pair] + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * words[2 * pair + 1] * 0x1p-32;
    numbers[2 * pair] = radius * std::cos(angle);
    numbers[2 * pair + 1] = radius * std::sin(angle);
  }
  return numbers;
}

std::array<double, 4> uniform_block(PhiloxKey key, std::uint64_t parameter, std::uint64_t block) {
  std::array<double, 4> numbers{};
  const PhiloxWords words = parameter_words(key, parameter, block);
  for (std::size_t i = 0; i < 4; ++i) numbers[i] = (words[i] + 0.5) * 0x1p-31 - 1.0;
  return numbers;
}

}  // namespace phalanx
