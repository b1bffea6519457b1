#pragma once
// BERT's pooler: tanh(W h_0 + b) of the first row ([CLS]) of each sample behind the final norm
// (Devlin et al., BERT, 2019). Under sequence parallelism that row is on the first tensor-parallel
// rank alone: it sends b * h numbers, all ranks compute the same, and the first alone takes the
// gradient. So the pooler's own gradients are whole on every rank, and nothing is summed.

#include <string>
#include <vector>

#include "phalanx/nn/linear.h"

namespace phalanx::nn {

class BertPooler {
 public:
  // Parameters pooler.dense.{weight [h, h], bias [h]}.
  BertPooler(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
             const TransformerConfig& config);

  // [b, h], from forward on.
  Tensor pooled(const Saved& saved) const { return saved[pooled_]; }

  // `hidden`: this rank's rows of the normed stream.
  void forward(Pass& pass, const Tensor& hidden, const Saved& saved) const;
  // Adds what `dpooled` [b, h] gives the first row to dhidden.
  void backward_input(Pass& pass, const Tensor& dhidden, const Tensor& dpooled,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

 private:
  const TransformerConfig config_;
  Linear dense_;
  SavedId first_, pooled_, ddense_output_;
};

}  // namespace phalanx::nn
