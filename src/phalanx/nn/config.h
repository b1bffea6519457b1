#pragma once
// Settings that the layers of one Transformer stack share. Sizes are global; `tensor` tells this
// rank's part.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/philox.h"
#include "phalanx/mesh/param_spec.h"
#include "phalanx/nn/adapter_settings.h"
#include "phalanx/nn/expert_settings.h"
#include "phalanx/nn/saved.h"
#include "phalanx/ops/activation.h"
#include "phalanx/ops/relative_bias.h"
#include "phalanx/ops/rotary.h"
#include "phalanx/regions/context_region.h"
#include "phalanx/regions/expert_region.h"
#include "phalanx/regions/tensor_region.h"

namespace phalanx::nn {

enum class AttentionKernel : std::uint8_t { kFused, kUnfused };

// The position of a sub-layer's norm (nn/sublayer.h).
enum class NormPlace : std::uint8_t { kPre, kPost };
enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };

struct TransformerConfig {
  std::int64_t num_layers = 0;  // scales the initial weights of residual projections
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t heads = 0;
  std::int64_t query_groups = 0;  // key/value heads; = heads without grouped query attention
  std::int64_t head_size = 0;
  NormKind norm = NormKind::kLayerNorm;
  bool norm_zero_centred = false;  // norm weights are stored minus 1 (--apply-layernorm-1p)
  double norm_epsilon = 1e-5;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double init_deviation = 0.02;
  ops::ActivationKind activation = ops::ActivationKind::kGeluTanh;
  bool gated = false;       // MLP: activation(gate) * up, both from one fc1 [gate; up]
  bool linear_bias = true;  // of linears of layers
  bool qkv_bias = true;     // of linear_qkv
  bool qk_norm = false;     // norms of every head's query and key
  AttentionKernel attention = AttentionKernel::kFused;
  // The stack's sequence, and the prefix of its parameters' names.
  Sequence sequence = Sequence::kOnly;
  std::string stack = "decoder";
  NormPlace norm_place = NormPlace::kPre;
  bool causal = true;
  // Set if self attention has a relative position bias.
  std::optional<ops::RelativeBuckets> relative_buckets = std::nullopt;
  // Set if queries and keys of self attention have rotary positions. A column [s, b] of the batch
  // holds the positions, all below max_positions.
  std::optional<ops::Rotary> rotary = std::nullopt;
  std::size_t position_column = 0;
  std::int64_t max_positions = 0;
  // The factor of the scores; default: 1 / sqrt(head_size).
  std::optional<double> attention_scale = std::nullopt;
  // The number of keys that a query of a causal stack sees, with its own; 0: all before it.
  std::int64_t window = 0;
  std::vector<bool> window_layers = {};   // the layers with the window; empty: all
  bool mask_documents = false;            // rows see only their own document
  DType dtype = DType::kF32;              // of parameters and activations
  bool fp32_residual = false;             // the residual stream is f32 even if dtype has 16 bits
  bool recompute_core_attention = false;  // unfused: backward recomputes probabilities
  TensorParallel tensor;
  ContextParallel context = {};
  ExpertParallel expert_parallel = {};
  ExpertSettings experts = {};
  AdapterSettings adapters = {};
  PhiloxKey init_key;
  PhiloxKey dropout_key;

  // This rank's share.
  std::int64_t local_ffn_hidden() const { return ffn_hidden / tensor.size; }
  std::int64_t local_heads() const { return heads / tensor.size; }
  // With fewer groups than ranks, a rank has one group and a part of that group's queries.
  std::int64_t local_query_groups() const {
    return std::max<std::int64_t>(1, query_groups / tensor.size);
  }
  std::int64_t local_qkv_width() const {
    return (local_heads() + 2 * local_query_groups()) * head_size;
  }
  double score_scale() const {
    return attention_scale.value_or(1.0 / std::sqrt(static_cast<double>(head_size)));
  }
  std::int64_t window_of(std::int64_t layer) const {
    return window_layers.empty() || window_layers[static_cast<std::size_t>(layer)] ? window : 0;
  }
  // For the initial weights of linears whose output is added to the residual stream.
  double exit_deviation() const {
    return init_deviation / std::sqrt(2.0 * static_cast<double>(num_layers));
  }
  // The Philox coordinate of a dropout in layer `layer` of this stack.
  std::uint32_t dropout_site(std::int64_t layer, DropoutPlace place, std::int64_t head = 0) const {
    return phalanx::dropout_site(static_cast<std::uint32_t>(layer), place,
                                 static_cast<std::uint32_t>(head),
                                 static_cast<std::uint32_t>(sequence));
  }
  Dropout hidden_dropout_at(std::int64_t layer, DropoutPlace place, bool training) const {
    return {.probability = training ? hidden_dropout : 0.0,
            .key = dropout_key,
            .site = dropout_site(layer, place)};
  }
  // The dtype of the residual stream.
  DType stream_dtype() const { return fp32_residual ? DType::kF32 : dtype; }
};

// What the gradients of parameters that act on the residual stream (norms, row-parallel biases) are
// summed over.
constexpr AxisSet sums_of_stream(const TensorParallel& tensor) {
  return tensor.sequence ? kRowAxes.with(Axis::kTensor) : kRowAxes;
}

// The dtype of statistics, losses and main gradients: f32, or f64 if the whole model runs in f64 on
// the reference.
constexpr DType full_precision(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace phalanx::nn
