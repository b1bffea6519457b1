#pragma once
// What the layers of one Transformer stack have in common. Sizes are global.

#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/base/philox.h"
#include "phalanx/ops/activation.h"

namespace phalanx::nn {

enum class AttentionKernel : std::uint8_t { kFused, kUnfused };

struct TransformerConfig {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t heads = 0;
  std::int64_t query_groups = 0;  // key/value heads; = heads without grouped query attention
  std::int64_t head_size = 0;
  double norm_epsilon = 1e-5;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double init_deviation = 0.02;
  ops::Gelu gelu = ops::Gelu::kTanh;
  AttentionKernel attention = AttentionKernel::kFused;
  bool causal = true;
  bool mask_documents = false;  // rows of other documents of the sample are invisible
  DType dtype = DType::kF32;    // of parameters and activations
  PhiloxKey init_key;
  PhiloxKey dropout_key;
};

// Statistics, losses and main gradients are f32; f64 where the whole model runs in f64 on the
// reference.
constexpr DType full_precision(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace phalanx::nn
