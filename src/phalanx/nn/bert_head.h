#pragma once
// BERT's last unit. Final norm H; the language-model head, logits = LN(gelu(H D + d)) W^T + beta,
// always with the exact (erf) GeLU, and its cross entropy. Optionally the binary head on the pooled
// first row: two classes ("swapped or not"), mean cross entropy over samples (Megatron's BertModel:
// bert_model.py, bert_lm_head.py).
//
// The head's dense layer and norm work on rows of the residual stream: under sequence parallelism
// each rank has its own rows and partial gradients. Pooler and binary head are the same on all
// ranks.

#include <optional>

#include "phalanx/nn/bert_head_parts.h"
#include "phalanx/nn/unit.h"
#include "phalanx/nn/vocabulary_projection.h"

namespace phalanx::nn {

struct BertHeadOptions {
  VocabularyOptions vocabulary;
  // The batch's column of the class of each sample, i32 [1, b]: 0, 1, or -1 for none. Its loss is
  // the model's second. If not set, there is no pooler and no binary head.
  std::optional<std::size_t> binary_labels;
};

class BertHead final : public Unit {
 public:
  // Parameters encoder.final_layernorm (except in a post-norm stack, whose layers end in a norm),
  // lm_head.{dense, layer_norm}, the vocabulary's, pooler.dense, binary_head.
  BertHead(ParamTable& table, const BertHeadOptions& options, const TransformerConfig& config);

  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  // `logits` [n, V] belong to the last n rows, for example all s rows of a sample. Losses are
  // computed too.
  void infer(InferencePass& pass, Tensors inputs, Tensors outputs,
             const Saved& saved) const override;
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;
  void backward(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                const Saved& saved, const Gradients& gradients) const override;

 private:
  // Pooler and binary head.
  struct Binary {
    std::size_t labels;
    BertPooler pooler;
    Linear classes;
    SavedId dlogits;
  };
  void losses(Pass& pass, const Tensor& x, const Saved& saved, const Tensor& row_losses,
              const Tensor& last_logits) const;
  void binary_loss(Pass& pass, const Saved& saved) const;
  // Recomputes H for backward: scratch of the enclosing WorkspaceScope, or x itself.
  Tensor hidden_again(Pass& pass, const Tensor& x, const Saved& saved) const;
  // Recomputes gelu(H D + d) into the same scratch.
  Tensor activated_again(Pass& pass, const Saved& saved) const;
  // Computes the gradient of the unit's input from the gradient of the activation.
  void to_input(Pass& pass, const Tensor& dx, const Tensor& dactivated, const Tensor& x,
                const Saved& saved) const;
  // The weight gradients before the activation, and of the binary head.
  void other_weights(Pass& pass, const Tensor& x, const Saved& saved,
                     const Gradients& gradients) const;

  const TransformerConfig config_;
  std::optional<Norm> norm_;
  Linear dense_;
  RegionEntry entry_;
  VocabularyProjection projection_;
  std::optional<Binary> binary_;
  SavedId dense_output_, ddense_output_;
};

}  // namespace phalanx::nn
