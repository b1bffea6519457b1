#pragma once
// Self attention as the body of a sub-layer: proj(attention(qkv(x))). The fused QKV weight has
// Megatron's row order: for each query group its query heads, its key, its value; a tensor-parallel
// rank has whole query groups. Queries and keys may be normalised, then rotated by their positions;
// a cache holds keys after both. With relative positions a bias is added to the scores
// (nn/relative_bias.h).
//
// Without head norms the fused tensor is rotated in place, and backward reads it rotated. With them
// it is saved before both steps, which backward repeats.
//
// Where a sample's rows lie on several ranks, nn/context_attention.h attends. Where these exchange
// rows for heads it saves what backward reads of the fused tensor, by heads; the fused tensor is
// then scratch of the forward pass, but for head norms, whose backward reads it as it was.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/adapters.h"
#include "phalanx/nn/attention_core.h"
#include "phalanx/nn/context_attention.h"
#include "phalanx/nn/head_norm.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/relative_bias.h"
#include "phalanx/nn/rotary.h"
#include "phalanx/nn/sublayer.h"

namespace phalanx::nn {

class SelfAttention final : public SublayerBody {
 public:
  // `layer` counts within the stack, from 0; `local_layer` within the chunk (key/value caches).
  SelfAttention(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                const std::string& prefix, std::int64_t layer, std::int64_t local_layer,
                const TransformerConfig& config);

  void forward(BodyCall& call, const Tensor& y, const Tensor& entered) const override;
  void recompute(BodyCall& call, const Tensor& entered) const override;
  void backward_to_entry(BodyCall& call) const override;
  void entry_input_gradient(BodyCall& call, const Tensor& dentered) const override;
  void entry_weight_gradient(BodyCall& call, const Tensor& entered,
                             const Gradients& gradients) const override;
  void exit_weight_gradient(BodyCall& call, const Gradients& gradients) const override;
  bool entry_trains() const override { return qkv_.trains_weight() || qkv_adapters_.reads_input(); }
  bool exit_trains() const override {
    return projection_.trains() || projection_adapters_.reads_output_gradient();
  }
  ParamId exit_bias() const override { return projection_.bias(); }
  DropoutPlace exit_dropout() const override { return DropoutPlace::kAttentionOutput; }

 private:
  // Query [s, b, groups, heads per group, d], key and value [s, b, groups, d]: views of a fused
  // [s, b, qkv] tensor, or of its gradient.
  AttentionCore::Heads split(const Tensor& qkv) const;
  // `heads` with scratch for query and key, if these are normalised.
  AttentionCore::Heads with_normed_scratch(Pass& pass, const AttentionCore::Heads& heads) const;
  // The inputs of attention: the output of linear_qkv, normalised and rotated; backward recomputes
  // them from the saved output.
  AttentionCore::Heads position(Pass& pass, const Tensor& qkv, const Saved& saved) const;
  AttentionCore::Heads position_again(Pass& pass, const Saved& saved) const;
  // linear_qkv and attention.
  void attend(BodyCall& call, const Tensor& entered) const;
  void attend_backward(BodyCall& call, const AttentionCore::Heads& gradients,
                       const Tensor& dcontext, const AttentionCore::Heads& heads) const;
  // Attention of each sample over its cache and its own keys.
  void attend_cached(BodyCall& call, const AttentionCore::Heads& heads) const;
  // Appends keys and values to the cache, points `heads` at all of them, and returns their rows.
  RowCoordinates append(Pass& pass, const KeyValueCache& cache, AttentionCore::Heads& heads) const;

  const TransformerConfig config_;
  std::int64_t local_layer_;
  Linear qkv_;
  Adapters qkv_adapters_;
  Linear projection_;
  Adapters projection_adapters_;
  SavedId qkv_output_ = -1;  // -1: not saved
  SavedId dqkv_output_;
  AttentionCore core_;
  std::optional<ContextAttention> context_attention_;
  std::optional<HeadNorm> query_norm_, key_norm_;
  std::optional<RotaryPositions> rotary_;
  std::optional<RelativeBias> bias_;
};

// A rank's rows of linear_qkv: for each group the queries, the key and the value. With fewer groups
// than ranks, neighbouring ranks share a group: each has a part of its queries and all of its key
// and value.
std::vector<RowRange> qkv_rows(const TransformerConfig& config);

// The sub-layer with its norm.
Sublayer self_attention_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                                 const std::string& prefix, std::int64_t layer,
                                 std::int64_t local_layer, const TransformerConfig& config);

}  // namespace phalanx::nn
