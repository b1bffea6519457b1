#pragma once
// The last unit of a BERT that classifies samples: final norm, pooler, dropout, a linear layer with
// one output per class, and the cross entropy of the label (Megatron's model/classification.py).
// Everything after the norm is the same on every tensor-parallel rank.

#include <optional>

#include "phalanx/nn/bert_head_parts.h"
#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

struct ClassificationHeadOptions {
  std::int64_t classes = 2;
  std::size_t labels = 0;     // the batch's column of classes, i32 [1, b]
  std::size_t loss_mask = 0;  // the column of samples that count, f32 [1, b]
};

class ClassificationHead final : public Unit {
 public:
  // Parameters NAME-OF-STACK.final_layernorm (not of a post-norm stack), pooler.dense,
  // classification_head.{weight [classes, h], bias [classes]}.
  ClassificationHead(ParamTable& table, const ClassificationHeadOptions& options,
                     const TransformerConfig& config);

  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  // `logits` [1, classes] of one sample; no loss.
  void infer(InferencePass& pass, Tensors inputs, Tensors outputs,
             const Saved& saved) const override;
  // The saved tensor [b, classes] of the logits. It exists only during the forward pass.
  SavedId logits() const { return logits_; }
  const ClassificationHeadOptions& options() const { return options_; }

  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  // Dropout of the pooled rows or of their gradient: dropout is linear, so both are the same.
  void drop(Pass& pass, const Tensor& out, const Tensor& in) const;
  // [b, classes].
  void class_logits(Pass& pass, const Tensor& logits, const Tensor& x, const Saved& saved) const;

  const TransformerConfig config_;
  ClassificationHeadOptions options_;
  std::optional<Norm> norm_;
  BertPooler pooler_;
  Linear classes_;
  SavedId logits_, dlogits_;
};

}  // namespace phalanx::nn
