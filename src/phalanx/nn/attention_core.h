#pragma once
// softmax(q k^T / sqrt(d) + bias) v on heads, fused or unfused, and its backward: self attention
// and cross attention use it between their linears. Saved: the context [sq, b, heads * d]; fused
// also the log-sum-exp; unfused the probabilities, unless backward recomputes them.

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/attention.h"

namespace phalanx::nn {

class AttentionCore {
 public:
  struct Kind {
    DropoutPlace dropout = DropoutPlace::kAttention;
    bool causal = false;
    bool documents = false;
    std::int64_t window = 0;  // of a causal mask
    // Keys belong to another sequence. A saved tensor has the shape of one sequence, so backward
    // recomputes the probabilities of an unfused kernel.
    bool is_cross = false;
    // Whether the weight pass reads the context: the projection behind it is trained.
    bool trains_projection = true;
  };
  AttentionCore(SavedSlots& slots, std::int64_t layer, const Kind& kind,
                const TransformerConfig& config);

  // Views [s, b, heads or groups, d]; queries may be [s, b, groups, heads per group, d].
  struct Heads {
    Tensor query, key, value;
  };
  struct Rows {
    RowCoordinates query, key;
  };
  // Optional, added to the scores: [heads, sq, sk]. Backward adds to `gradient`, which is initially
  // zero.
  struct Bias {
    Tensor values, gradient;
  };

  Tensor context(const Saved& saved) const { return saved[context_]; }
  // Of the fused kernel: [b, heads, s], or where ranks of a context exchange rows for heads, of all
  // their rows and this rank's share of the heads.
  const Tensor& lse(const Saved& saved) const { return saved[lse_]; }
  // A context, or its gradient, as [s, b, heads, d].
  Tensor as_heads(const Tensor& context) const;
  // The operands of an op. `first_head` is the number of the first of `heads` among this
  // tensor-parallel rank's.
  ops::AttentionInputs inputs(const Pass& pass, const Heads& heads, const Rows& rows,
                              const Tensor& bias = {}, std::int64_t first_head = 0) const;

  void forward(Pass& pass, const Heads& heads, const Rows& rows, const Bias& bias,
               const Saved& saved) const;
  // The forward pass of one sample with cached keys. Saves nothing for backward.
  void forward_cached(Pass& pass, const Heads& heads, const Rows& rows, const Bias& bias,
                      const Saved& saved, std::int64_t sample) const;
  // `dcontext` [sq, b, heads * d] is the gradient of the context.
  void backward(Pass& pass, const Heads& gradients, const Tensor& dcontext, const Heads& heads,
                const Rows& rows, const Bias& bias, const Saved& saved) const;

 private:
  Tensor scratch_probabilities(const Pass& pass, const Heads& heads) const;

  const TransformerConfig config_;
  std::int64_t layer_;
  Kind kind_;
  SavedId context_, lse_, probabilities_;
};

}  // namespace phalanx::nn
