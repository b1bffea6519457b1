#pragma once
// BERT's last unit: final norm H; the language-model head, logits = LN(gelu(H D + d)) W^T + beta
// with the exact (erf) GeLU whatever the layers' is, and its cross entropy; and, where the model
// has one, the binary head on the pooled first row: two classes ("swapped or not"), the mean over
// samples of their cross entropy (Megatron's BertModel: bert_model.py, bert_lm_head.py).
//
// Dense layer and norm of the head work on the residual stream's rows: under sequence parallelism
// each rank has its own rows and partial gradients. Pooler and binary head are the same on all
// ranks.

#include <optional>

#include "phalanx/nn/bert_pooler.h"
#include "phalanx/nn/unit.h"
#include "phalanx/nn/vocabulary_projection.h"

namespace phalanx::nn {

struct BertHeadOptions {
  VocabularyOptions vocabulary;
  // The batch's column of each sample's class, i32 [1, b]: 0, 1, or -1 for none. Its loss is the
  // model's second. Without it there is neither pooler nor binary head.
  std::optional<std::size_t> binary_labels;
};

class BertHead final : public Unit {
 public:
  // Parameters encoder.final_layernorm (not of a post-norm stack, whose layers end in a norm),
  // lm_head.{dense, layer_norm}, the vocabulary's, pooler.dense, binary_head.
  BertHead(ParamTable& table, const BertHeadOptions& options, const TransformerConfig& config);

  void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               const Saved& saved) const override;
  // `logits` [n, V] are of the last n rows, for example of all s rows of a sample. Losses are
  // computed too.
  void infer(InferencePass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             const Saved& saved) const override;
  void backward_input(Pass& pass, std::span<const Tensor> inputs,
                      std::span<const Tensor> output_gradients,
                      std::span<const Tensor> input_gradients, const Saved& saved) const override;
  void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                       const Gradients& gradients) const override;
  void backward(Pass& pass, std::span<const Tensor> inputs,
                std::span<const Tensor> output_gradients, std::span<const Tensor> input_gradients,
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
  // Computes H again for backward: scratch of the enclosing WorkspaceScope, or x itself.
  Tensor hidden_again(Pass& pass, const Tensor& x, const Saved& saved) const;
  // Computes gelu(H D + d) again, in such scratch.
  Tensor activated_again(Pass& pass, const Saved& saved) const;
  // From the gradient of the activation to that of the unit's input.
  void to_input(Pass& pass, const Tensor& dx, const Tensor& dactivated, const Tensor& x,
                const Saved& saved) const;
  // The weight gradients of everything before the activation, and of the binary head.
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
