#pragma once
// BERT as Megatron's: a stack of bidirectional layers between word, position and segment embeddings
// and a head with two losses, "lm loss" over the masked tokens and "sop loss" on whether the two
// segments are swapped (Devlin et al., BERT, 2019; Lan et al., ALBERT, 2020). Layers are pre-norm
// with a final norm; or post-norm, with a norm behind the embedding, as the published BERT and
// Hugging Face's (--post-layernorm).

#include "phalanx/model/model.h"
#include "phalanx/nn/bert_head.h"

namespace phalanx {

struct BertConfig {
  nn::TransformerConfig transformer;  // not causal; stack "encoder"
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  std::int64_t max_positions = 0;
  std::int64_t sequence = 0;
  // The second loss. Without it there are no segments either.
  bool binary_head = true;
  bool tied_embedding = true;
  RecomputePlan recompute;
};

// The unit before the first layer.
std::unique_ptr<nn::Unit> make_bert_embedding(const BertConfig& config, nn::ParamTable& table);

class BertModel final : public Model {
 public:
  explicit BertModel(BertConfig config);

  const BertConfig& config() const { return config_; }

  std::unique_ptr<const Model> placed(const ModelPlace& place) const override;
  const nn::TransformerConfig& transformer() const override { return config_.transformer; }
  VocabularySize vocabulary() const override {
    return {.ids = config_.vocabulary, .padded = config_.padded_vocabulary};
  }
  BatchSchema batch_schema() const override;
  // Padding has another document.
  nn::RowPatterns row_patterns() const override { return {RowPattern{.consecutive = true}}; }
  std::vector<LossSpec> losses() const override;
  StageRange whole() const override;
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  std::int64_t tokens_per_sample() const override { return config_.sequence; }
  double flops_per_sample() const override;

 private:
  BertConfig config_;
};

// L (12 h^2 + 13 h) + V h + P h + (h^2 + h) + 2 h + V for f = 4 h: layers, words, positions, the
// head's dense and norm, the logits' bias; 2 h for the final norm, or the embedding's of a
// post-norm stack; V h where the output matrix is not tied; with the binary head 2 h for the
// segments, h^2 + h for the pooler and 2 h + 2. Without vocabulary padding.
std::int64_t bert_parameters(const BertConfig& config);

}  // namespace phalanx
