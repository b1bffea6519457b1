#pragma once
// The last unit of a decoder: final norm, logits against the (tied) word table, cross entropy
// (nn/vocabulary_projection.h).

#include "phalanx/nn/unit.h"
#include "phalanx/nn/vocabulary_projection.h"

namespace phalanx::nn {

class LanguageModelHead final : public Unit {
 public:
  LanguageModelHead(ParamTable& table, const VocabularyOptions& options,
                    const TransformerConfig& config);
  enum class Output { kTied, kOwn };
  // Without a bias, of the model's first loss; tied, or with output_layer.weight.
  LanguageModelHead(ParamTable& table, Output output, std::int64_t vocabulary,
                    std::int64_t padded_vocabulary, const TargetColumns& columns,
                    const TransformerConfig& config);

  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  void infer(InferencePass& pass, Tensors inputs, Tensors outputs,
             const Saved& saved) const override;
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;
  void backward(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                const Saved& saved, const Gradients& gradients) const override;

 private:
  RegionEntry entry_;
  VocabularyProjection projection_;
};

}  // namespace phalanx::nn
