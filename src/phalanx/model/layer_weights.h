#pragma once
// How many weights a row is multiplied with in a layer, for counts of floating-point operations.

#include "phalanx/nn/config.h"

namespace phalanx {

// An MLP of this width.
inline double mlp_weights(const nn::TransformerConfig& config, std::int64_t ffn_hidden) {
  const double matrices = config.gated ? 3.0 : 2.0;
  return matrices * static_cast<double>(config.hidden) * static_cast<double>(ffn_hidden);
}
inline double mlp_weights(const nn::TransformerConfig& config) {
  return mlp_weights(config, config.ffn_hidden);
}

// A router, the experts that it chooses, and the shared expert with its gate.
inline double expert_weights(const nn::TransformerConfig& config) {
  const nn::ExpertSettings& experts = config.experts;
  const auto routed = static_cast<double>(experts.experts + (experts.shared_gate ? 1 : 0));
  return static_cast<double>(experts.chosen) * mlp_weights(config, experts.ffn_hidden) +
         mlp_weights(config, experts.shared_ffn_hidden) +
         static_cast<double>(config.hidden) * routed;
}

// The weights of all adapters.
inline double adapter_weights(const nn::TransformerConfig& config) {
  using enum nn::AdapterPart;
  const std::int64_t context = config.heads * config.head_size;
  const std::int64_t keys = config.query_groups * config.head_size;
  const std::int64_t fc1 = (config.gated ? 2 : 1) * config.ffn_hidden;
  const std::int64_t h = config.hidden;
  std::int64_t features = 0;  // in and out
  const auto add = [&](std::int64_t layer, nn::AdapterPart part, std::int64_t in,
                       std::int64_t out) {
    if (config.adapters.has(layer, part)) features += in + out;
  };
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    add(layer, kQuery, h, context);
    add(layer, kKey, h, keys);
    add(layer, kValue, h, keys);
    add(layer, kQkv, h, context + 2 * keys);
    add(layer, kOutput, context, h);
    add(layer, kGate, h, config.ffn_hidden);
    add(layer, kUp, h, config.ffn_hidden);
    add(layer, kFc1, h, fc1);
    add(layer, kDown, config.ffn_hidden, h);
  }
  return static_cast<double>(config.adapters.rank * features);
}

}  // namespace phalanx
