#pragma once
// The norm of every head's query or key, over the head's features, of the kind that the
// configuration says: one weight for all heads. What is normalised is not saved again, and its
// output never: backward makes it once more (apply).

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

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
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

 private:
  // The rows [s * b * groups, d] of the heads that stand at one place of their groups.
  Tensor heads_at(const Tensor& heads, std::int64_t place) const;

  NormKind kind_;
  bool zero_centred_;
  double epsilon_;
  std::int64_t heads_per_group_;
  ParamId weight_;
  SavedId rstd_, dweight_;
  // Of layer normalisation alone.
  ParamId bias_ = -1;
  SavedId mean_ = -1, dbias_ = -1;
};

}  // namespace phalanx::nn
