#pragma once
// How many weights a row is multiplied with in a layer, for counts of floating-point operations.

#include "phalanx/nn/config.h"

namespace phalanx {

inline double mlp_weights(const nn::TransformerConfig& config) {
  const double matrices = config.gated ? 3.0 : 2.0;
  return matrices * static_cast<double>(config.hidden) * static_cast<double>(config.ffn_hidden);
}

}  // namespace phalanx
