#pragma once
// The attention sub-layer with its norm and residual: out = x +
// dropout(proj(attention(qkv(norm(x)))) + bias). The fused QKV weight has Megatron's row order: for
// each query group its query heads, then its key, then its value; a rank of the tensor-parallel
// group has whole query groups.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/norm.h"

namespace phalanx::nn {

class SelfAttention {
 public:
  // `layer` is global, from 0; `local_layer` numbers the layers of the chunk (key/value caches).
  SelfAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                const std::string& prefix, std::int64_t layer, std::int64_t local_layer,
                const TransformerConfig& config);

  void forward(Pass& pass, const Tensor& out, const Tensor& x, const Saved& saved) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                       const Gradients& gradients) const;
  // Both; the weight gradients are computed while the messages of the input gradient are under way.
  void backward(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                const Saved& saved, const Gradients& gradients) const;

 private:
  // Query, key and value [s, b, heads, d]: views of a fused [s, b, qkv] tensor, or of its gradient.
  // With several query heads a group the queries are not evenly strided, and `query` is a dense
  // scratch copy.
  struct Heads {
    Tensor query, key, value;
    Tensor fused_query;  // [s, b, groups, heads per group, d], where query is a copy
  };
  Heads split(Pass& pass, const Tensor& qkv) const;
  Heads split_filled(Pass& pass, const Tensor& qkv) const;
  Tensor as_heads(const Tensor& context) const;
  ops::AttentionInputs inputs(const Pass& pass, const Heads& heads) const;
  Dropout hidden_dropout(const Pass& pass) const;
  void core_forward(Pass& pass, const Saved& saved) const;
  void backward_to_qkv(Pass& pass, const Tensor& dout, const Saved& saved) const;
  void core_backward(Pass& pass, const Tensor& dcontext, const Saved& saved) const;
  void append_to_cache(Pass& pass, Heads& heads) const;

  const TransformerConfig config_;
  std::int64_t layer_, local_layer_;
  LayerNorm norm_;
  Linear qkv_, projection_;
  SavedId qkv_output_, context_, lse_, probabilities_;
  SavedId dqkv_output_, dprojection_output_;
};

}  // namespace phalanx::nn
