#pragma once
// A BERT whose heads are another: the body with segments and pooler, and a linear layer that says
// of a sample which class it is (Megatron's model/classification.py). Parameters of the body have
// the names that they have in a BERT, so that its checkpoints fit.

#include <cstdint>
#include <vector>

#include "phalanx/model/bert.h"
#include "phalanx/model/model.h"

namespace phalanx {

struct ClassifierConfig {
  BertConfig bert;  // untied: nobody else reads the word table
  std::int64_t classes = 2;
};

class ClassifierModel final : public Model {
 public:
  explicit ClassifierModel(ClassifierConfig config);

  std::unique_ptr<const Model> placed(int tensor_rank) const override;
  const nn::TransformerConfig& transformer() const override { return config_.bert.transformer; }
  VocabularySize vocabulary() const override {
    return {.ids = config_.bert.vocabulary, .padded = config_.bert.padded_vocabulary};
  }
  BatchSchema batch_schema() const override;
  // "lm loss": Megatron's name, although no language is modelled; its title says what it is.
  std::vector<LossSpec> losses() const override;
  StageRange whole() const override;
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  std::int64_t tokens_per_sample() const override { return config_.bert.sequence; }
  double flops_per_sample() const override;

 private:
  ClassifierConfig config_;
};

}  // namespace phalanx
