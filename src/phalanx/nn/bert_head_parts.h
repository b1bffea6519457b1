#pragma once
// What the heads of BERT share: the norm before them, the loss of a class for each sample, and the
// pooler. The pooler: tanh(W h_0 + b) of the first row ([CLS]) of each sample after the final norm
// (Devlin et al., BERT, 2019). Under sequence parallelism only the first tensor-parallel rank has
// that row. It sends b * h numbers, all ranks compute the same, and only the first takes the
// gradient. So each rank has whole gradients of the pooler, and no sum is needed.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/linear.h"
#include "phalanx/nn/norm.h"

namespace phalanx::nn {

class BertPooler {
 public:
  // Parameters pooler.dense.{weight [h, h], bias [h]}.
  BertPooler(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
             const TransformerConfig& config);

  // [b, h]; valid after forward.
  Tensor pooled(const Saved& saved) const { return saved[pooled_]; }

  // `hidden`: this rank's rows of the normed stream.
  void forward(Pass& pass, const Tensor& hidden, const Saved& saved) const;
  // Adds the first row's gradient, from `dpooled` [b, h], to dhidden.
  void backward_input(Pass& pass, const Tensor& dhidden, const Tensor& dpooled,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

 private:
  const TransformerConfig config_;
  Linear dense_;
  SavedId first_, pooled_, ddense_output_;
};

// STACK.final_layernorm; not of a post-norm stack, whose layers end in a norm.
std::optional<Norm> bert_final_norm(ParamTable& table, std::vector<ParamId>& owned,
                                    SavedSlots& slots, const TransformerConfig& config);

// The cross entropy of samples, added up for `term`: logits [b, classes], the classes `labels` [b]
// and which samples count, `mask` [b]. In training `dlogits` gets the gradient.
void class_losses(Pass& pass, const LossTerm& term, const Tensor& logits, const Tensor& labels,
                  const Tensor& mask, const Tensor& dlogits);

}  // namespace phalanx::nn
