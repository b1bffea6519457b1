#pragma once
// softmax(q k^T / sqrt(d) + bias) v on heads, fused or unfused, with what backward needs of it: the
// body of self attention and of cross attention between their linears. The context [sq, b, heads *
// d] is saved, and of a fused kernel the log-sum-exp, of an unfused one the probabilities, unless
// these are computed again.

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
    // Keys of another sequence. A saved tensor has the shape of one sequence, so the probabilities
    // of an unfused kernel are computed again.
    bool is_cross = false;
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
  // Of the scores, [heads, sq, sk], optional; of the gradient zeros, to which backward adds.
  struct Bias {
    Tensor values, gradient;
  };

  Tensor context(const Saved& saved) const { return saved[context_]; }

  void forward(Pass& pass, const Heads& heads, const Rows& rows, const Bias& bias,
               const Saved& saved) const;
  // Of one sample of the batch alone, whose keys are those of a cache. Nothing is saved for
  // backward.
  void forward_cached(Pass& pass, const Heads& heads, const Rows& rows, const Bias& bias,
                      const Saved& saved, std::int64_t sample) const;
  // From the context's gradient, as context.
  void backward(Pass& pass, const Heads& gradients, const Tensor& dcontext, const Heads& heads,
                const Rows& rows, const Bias& bias, const Saved& saved) const;

 private:
  Tensor as_heads(const Tensor& context) const;
  Tensor scratch_probabilities(const Pass& pass, const Heads& heads) const;
  ops::AttentionInputs inputs(const Pass& pass, const Heads& heads, const Rows& rows,
                              const Tensor& bias) const;

  const TransformerConfig config_;
  std::int64_t layer_;
  Kind kind_;
  SavedId context_, lse_, probabilities_;
};

}  // namespace phalanx::nn
