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

}  // namespace phalanx
