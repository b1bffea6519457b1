#pragma once
// Which low-rank adapters the layers of a stack have (nn/adapters.h).

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx::nn {

// A part of a linear's output features that has an adapter of its own. Parts of the same linear
// either are different features, or one of them is all.
enum class AdapterPart : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kOutput,  // all of linear_proj
  kGate,
  kUp,
  kDown,  // all of linear_fc2
  kQkv,   // all of linear_qkv
  kFc1,   // all of linear_fc1
};
inline constexpr std::size_t kAdapterParts = 9;
// Their names in parameters and flags.
inline constexpr std::array<std::string_view, kAdapterParts> kAdapterPartNames = {
    "q", "k", "v", "o", "gate", "up", "down", "qkv", "fc1"};
constexpr std::string_view name_of(AdapterPart part) {
  return kAdapterPartNames[static_cast<std::size_t>(part)];
}

struct AdapterSettings {
  std::int64_t rank = 0;     // 0: there are none
  double scale = 1.0;        // of B A x
  double dropout = 0.0;      // of x
  bool is_gaussian = false;  // A begins normal with deviation 1 / rank, else uniform
  std::array<bool, kAdapterParts> parts = {};
  std::vector<bool> layers = {};  // those with adapters; empty: all

  bool has(std::int64_t layer, AdapterPart part) const {
    return rank > 0 && parts[static_cast<std::size_t>(part)] &&
           (layers.empty() || layers[static_cast<std::size_t>(layer)]);
  }
};

}  // namespace phalanx::nn
