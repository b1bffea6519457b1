#pragma once
// What the layers of one Transformer stack have in common. Sizes are global; `tensor` says which
// part of them a rank holds.

#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/base/philox.h"
#include "phalanx/mesh/param_spec.h"
#include "phalanx/ops/activation.h"
#include "phalanx/parallel/tensor_region.h"

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
  bool mask_documents = false;            // rows of other documents of the sample are invisible
  DType dtype = DType::kF32;              // of parameters and activations
  bool fp32_residual = false;             // the residual stream is f32 although dtype has 16 bits
  bool recompute_core_attention = false;  // unfused: probabilities are computed again in backward
  TensorParallel tensor;
  PhiloxKey init_key;
  PhiloxKey dropout_key;

  // What this rank holds of each.
  std::int64_t local_ffn_hidden() const { return ffn_hidden / tensor.size; }
  std::int64_t local_heads() const { return heads / tensor.size; }
  std::int64_t local_query_groups() const { return query_groups / tensor.size; }
  // Of the residual stream.
  DType stream_dtype() const { return fp32_residual ? DType::kF32 : dtype; }
};

// How the gradients of what acts on the residual stream (norms, row-parallel biases) come together.
constexpr GradientReduction reduction_of_stream(const TensorParallel& tensor) {
  return tensor.sequence ? GradientReduction::kSequencePartial : GradientReduction::kNone;
}

// Statistics, losses and main gradients are f32; f64 where the whole model runs in f64 on the
// reference.
constexpr DType full_precision(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace phalanx::nn
