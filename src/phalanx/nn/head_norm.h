#pragma once
// The norm of every head's query or key, over the head's features, of the kind that the
// configuration says: one weight for all heads. Neither its input nor its output is saved: backward
// is given the input, and computes the output again (apply).

#include <string>
#include <vector>

#include "phalanx/nn/norm.h"

namespace phalanx::nn {

class HeadNorm {
 public:
  // Parameters NAME.weight [head size], ones (zeros where it is zero-centred), and, of layer
  // normalisation, NAME.bias, zeros; a rank of the tensor-parallel group has the gradient of its
  // heads. Saved: the statistics of each head and this microbatch's sums. `heads_per_group` are
  // those of this rank.
  HeadNorm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& name, std::int64_t heads_per_group, const TransformerConfig& config);

  // Tensors are [s, b, groups, heads per group, d], or without the fourth dimension where it is 1;
  // views of a fused tensor, or dense.
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
    norm_.backward_weight(pass, saved, gradients);
  }

 private:
  // The rows [s * b * groups, d] of the heads that stand at one place of their groups.
  Tensor heads_at(const Tensor& heads, std::int64_t place) const;
  Norm::Statistics statistics_at(const Saved& saved, std::int64_t place) const;

  std::int64_t heads_per_group_;
  Norm norm_;
};

}  // namespace phalanx::nn
