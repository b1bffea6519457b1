#pragma once
// Self attention as the body of a sub-layer: proj(attention(qkv(x))). The fused QKV weight has
// Megatron's row order: for each query group its query heads, then its key, then its value; a rank
// of the tensor-parallel group has whole query groups. Of a stack with relative positions the
// scores have a bias (nn/relative_bias.h).

#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/attention_core.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/relative_bias.h"
#include "phalanx/nn/sublayer.h"

namespace phalanx::nn {

class SelfAttention final : public SublayerBody {
 public:
  // `layer` counts within the stack, from 0; `local_layer` within the chunk (key/value caches).
  SelfAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                const std::string& prefix, std::int64_t layer, std::int64_t local_layer,
                const TransformerConfig& config);

  void forward(BodyPass& at, const Tensor& y, const Tensor& entered) const override;
  void recompute(BodyPass& at, const Tensor& entered) const override;
  void backward_to_entry(BodyPass& at) const override;
  void entry_input_gradient(BodyPass& at, const Tensor& dentered) const override;
  void entry_weight_gradient(BodyPass& at, const Tensor& entered,
                             const Gradients& gradients) const override;
  void exit_weight_gradient(BodyPass& at, const Gradients& gradients) const override;
  ParamId exit_bias() const override { return projection_.bias(); }
  DropoutPlace exit_dropout() const override { return DropoutPlace::kAttentionOutput; }

 private:
  // Query, key and value [s, b, heads, d]: views of a fused [s, b, qkv] tensor, or of its gradient.
  // With several query heads a group the queries are not evenly strided, and `query` is a dense
  // scratch copy.
  struct FusedHeads : AttentionCore::Heads {
    Tensor fused_query;  // [s, b, groups, heads per group, d], where query is a
                         // copy
  };
  FusedHeads split(Pass& pass, const Tensor& qkv) const;
  FusedHeads split_filled(Pass& pass, const Tensor& qkv) const;
  // Keys and values join those of the cache: its rows are returned.
  RowCoordinates append(Pass& pass, const KeyValueCache& cache, AttentionCore::Heads& heads) const;

  const TransformerConfig config_;
  std::int64_t local_layer_;
  Linear qkv_, projection_;
  SavedId qkv_output_, dqkv_output_;
  AttentionCore core_;
  std::optional<RelativeBias> bias_;
};

// The sub-layer with its norm.
Sublayer self_attention_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                                 const std::string& prefix, std::int64_t layer,
                                 std::int64_t local_layer, const TransformerConfig& config);

}  // namespace phalanx::nn
