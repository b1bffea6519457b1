#pragma once
// Cross attention as the body of a sub-layer: proj(attention(q(x), kv(E))). E is the encoder's
// output, which all decoder layers read without another norm. The rows of the fused kv weight are
// each head's key, then its value. Keys of padding are masked.
//
// kv enters the region a second time: E is gathered along its own sequence for kv's product, in
// forward and for the weight gradient. Partial gradients of E are summed and then added to those of
// later layers; each sum is rounded to the stream's type.

#include <string>
#include <vector>

#include "phalanx/nn/attention_core.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/sublayer.h"

namespace phalanx::nn {

class CrossAttention final : public SublayerBody {
 public:
  // `layer` counts within the stack, from 0.
  CrossAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                 const std::string& prefix, std::int64_t layer, const TransformerConfig& config);

  void forward(BodyCall& call, const Tensor& y, const Tensor& entered) const override;
  void recompute(BodyCall& call, const Tensor& entered) const override;
  void backward_to_entry(BodyCall& call) const override;
  void entry_input_gradient(BodyCall& call, const Tensor& dentered) const override;
  void entry_weight_gradient(BodyCall& call, const Tensor& entered,
                             const Gradients& gradients) const override;
  void exit_weight_gradient(BodyCall& call, const Gradients& gradients) const override;
  bool entry_trains() const override { return query_.trains_weight(); }
  bool exit_trains() const override { return projection_.trains(); }
  ParamId exit_bias() const override { return projection_.bias(); }
  DropoutPlace exit_dropout() const override { return DropoutPlace::kCrossAttentionOutput; }

 private:
  AttentionCore::Heads split(const Tensor& query, const Tensor& key_value) const;
  // All rows of E, [s, b, h] of the encoder's sequence.
  Tensor gathered(Pass& encoder, const Tensor& carried) const;

  const TransformerConfig config_;
  Linear query_, key_value_, projection_;
  SavedId query_output_, key_value_output_, dquery_output_, dkey_value_output_;
  AttentionCore core_;
};

// The sub-layer with its norm.
Sublayer cross_attention_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                                  const std::string& prefix, std::int64_t layer,
                                  const TransformerConfig& config);

}  // namespace phalanx::nn
