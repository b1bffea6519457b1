#pragma once
// Attention of a layer whose samples' rows lie on several ranks (regions/context_region.h): which
// messages it sends, and which rows and heads it works on. Two levels: `inner` neighbours exchange
// rows for heads, over `outer` of such groups keys and values go round. Of a ring alone, and where
// keys are gathered, inner is 1; of heads alone, outer is.
//
// With inner > 1 queries, keys and values are saved by heads, after norms and rotation, so backward
// exchanges only gradients. The context is saved by rows, the log-sum-exp by heads.

#include "phalanx/nn/attention_core.h"
#include "phalanx/nn/head_exchange.h"
#include "phalanx/nn/ring_attention.h"

namespace phalanx::nn {

class ContextAttention {
 public:
  // For layer `layer` of the stack. A causal stack with fused kernels.
  ContextAttention(SavedSlots& slots, std::int64_t layer, const TransformerConfig& config);

  // Whether forward saves the queries, keys and values that backward needs; then backward reads no
  // `heads`.
  bool saves_heads() const { return inner_ > 1; }

  // `core` is the layer's, of the same heads; `heads` are this rank's rows, as AttentionCore's.
  void forward(Pass& pass, const AttentionCore& core, const AttentionCore::Heads& heads,
               const Saved& saved) const;
  void backward(Pass& pass, const AttentionCore& core, const AttentionCore::Heads& gradients,
                const Tensor& dcontext, const AttentionCore::Heads& heads,
                const Saved& saved) const;

 private:
  // Rows and heads between the two levels.
  struct Level {
    ops::AttentionInputs inputs;  // without key rows where a ring follows
    RowCoordinates ring_rows;
  };
  Level level(Pass& pass, const AttentionCore& core, const AttentionCore::Heads& heads) const;
  Communicator& neighbours(const Pass& pass) const;
  Communicator& ring(const Pass& pass) const;

  void attend(Pass& pass, const Level& level, const Tensor& out, const Tensor& lse) const;
  // Gradients [m, b, ...] of the level's queries, in `query`, and of keys and values, in scratch.
  AttentionCore::Heads attend_backward(Pass& pass, const Level& level, const Tensor& query,
                                       const Tensor& dout, const Tensor& lse,
                                       const Tensor& delta) const;
  // Of outputs and gradients of queries, which a ring adds up in parts and rounds once.
  DType type_of_sums() const;

  const TransformerConfig config_;
  ContextExchange exchange_;
  int inner_;
  int outer_;
  HeadExchange heads_;
  SavedId by_heads_ = -1;
};

}  // namespace phalanx::nn
