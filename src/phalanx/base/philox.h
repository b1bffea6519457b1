#pragma once
// Random numbers by coordinates: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11) as a pure function of (key, counter). There is no generator state, so numbers are
// the same under every layout, schedule and restart. This header defines the coordinates; every
// backend computes exactly these words.

#include <array>
#include <cstdint>
#include <string_view>

namespace phalanx {

struct PhiloxKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
using PhiloxWords = std::array<std::uint32_t, 4>;

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;

// Ten rounds. Known value: key 0, counter 0 -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
inline PhiloxWords philox4x32(PhiloxKey key, PhiloxWords counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key.low,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key.high,
               static_cast<std::uint32_t>(product0)};
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  return counter;
}

enum class RandomPurpose : std::uint32_t { kInitialisation = 1, kDropout = 2, kSampling = 3 };

// The key of one purpose under one seed.
PhiloxKey random_key(std::uint64_t seed, RandomPurpose purpose);

// The coordinate of a parameter: a 64-bit hash (FNV-1a) of its global name.
std::uint64_t parameter_coordinate(std::string_view name);

// Standard normal numbers of a parameter. Element e (row-major index in the *global* tensor) is
// number e % 4 of block e / 4. Box-Muller in double: words (w0, w1) give numbers 0 and 1, (w2, w3)
// give 2 and 3. r = sqrt(-2 ln((w0 + 1) / 2^32)), angle = 2 pi w1 / 2^32, values r cos(angle), r
// sin(angle).
std::array<double, 4> normal_block(PhiloxKey key, std::uint64_t parameter, std::uint64_t block);

// Uniform numbers of a parameter, numbered as its normal ones: of word w, (w + 1/2) / 2^31 - 1,
// which is above -1 and below 1. Known value: key 0, parameter 0, block 0 -> -0.201907 0.761040
// 0.471426 0.210964.
std::array<double, 4> uniform_block(PhiloxKey key, std::uint64_t parameter, std::uint64_t block);

// A dropout site has the layer (its 0-based number in the stack, or kEmbeddingLayer), the place in
// it, the attention head (0 elsewhere, but for adapters) and the stack: 0, or 1 for the decoder
// after an encoder.
enum class DropoutPlace : std::uint32_t {
  kEmbedding = 0,
  kAttention = 1,
  kAttentionOutput = 2,
  kMlpOutput = 3,
  kCrossAttention = 4,
  kCrossAttentionOutput = 5,
  kAdapter = 6,     // the head is the number of the adapter's part (nn/adapters.h)
  kRouterInput = 7  // jitter
};
inline constexpr std::uint32_t kEmbeddingLayer = 0xffff;
constexpr std::uint32_t dropout_site(std::uint32_t layer, DropoutPlace place,
                                     std::uint32_t head = 0, std::uint32_t stack = 0) {
  return (layer << 16) | (stack << 15) | (static_cast<std::uint32_t>(place) << 12) | head;
}

// The key of one sample (its number in the order of consumption). The high half of the sample goes
// here, the low half into the counter.
constexpr PhiloxKey dropout_sample_key(PhiloxKey key, std::uint64_t sample) {
  return {key.low, key.high ^ (static_cast<std::uint32_t>(sample >> 32) * 0x85EBCA6BU)};
}
// The counter of four neighbours: (inner / 4, outer, site, low half of the sample). Element `inner`
// takes word inner % 4. Hidden dropout: outer = position, inner = feature. Attention dropout: outer
// = query position, inner = key position, and the site includes the head.
constexpr PhiloxWords dropout_counter(std::uint64_t sample, std::uint32_t site, std::uint32_t outer,
                                      std::uint32_t inner) {
  return {inner / 4, outer, site, static_cast<std::uint32_t>(sample)};
}
// An element is dropped if its word is below this; others are multiplied by float(1 / (1 - p)).
constexpr std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

// A uniform factor in [1 - epsilon, 1 + epsilon) of the word at a dropout's coordinates. The
// product of two numbers of 24 bits is exact, so a fused multiply-add gives the same bits.
constexpr float jitter_factor(std::uint32_t word, float epsilon) {
  const double centred = static_cast<double>(word >> 8) / 8388608.0 - 1.0;
  return static_cast<float>(1.0 + static_cast<double>(epsilon) * centred);
}

// A uniform number in [0, 1) with 53 bits from two words.
constexpr double uniform_double(std::uint32_t a, std::uint32_t b) {
  return ((a >> 5) * 67108864.0 + (b >> 6)) / 9007199254740992.0;
}

}  // namespace phalanx
