#pragma once
// The configured norm of every head's query or key, over the head's features, with one weight for
// all heads. It saves neither input nor output: backward gets the input and recomputes the output
// (apply).

#include <string>
#include <vector>

#include "phalanx/nn/norm.h"

namespace phalanx::nn {

class HeadNorm {
 public:
  // Parameters NAME.weight [head size], ones (zeros if zero-centred), and for layer normalisation
  // NAME.bias, zeros. A tensor-parallel rank has the gradient of its heads. Saved: the statistics
  // of each head and this microbatch's sums. `heads_per_group` counts this rank's heads.
  HeadNorm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& name, std::int64_t heads_per_group, const TransformerConfig& config);

  // Tensors are [s, b, groups, heads per group, d], without the fourth dimension if it is 1; dense,
  // or views of a fused tensor.
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
    norm_.backward_weight(pass, saved, gradients);
  }

 private:
  // [s * b * groups, heads per group, d], without the second dimension where the heads have none.
  Tensor rows_of(const Tensor& heads) const;
  Norm::Statistics statistics_of(const Tensor& rows, const Saved& saved) const;

  Norm norm_;
};

}  // namespace phalanx::nn
