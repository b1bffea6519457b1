#pragma once
// A BERT with another head: the body with segments and pooler, and a linear layer for the classes
// (Megatron's model/classification.py). The body's parameters have the names of a BERT's, so that a
// BERT's checkpoint fits.

#include <cstdint>
#include <vector>

#include "phalanx/model/bert.h"
#include "phalanx/model/model.h"

namespace phalanx {

struct ClassifierConfig {
  BertConfig bert;  // untied: the head does not read the word table
  std::int64_t classes = 2;
};

class ClassifierModel final : public Model {
 public:
  explicit ClassifierModel(ClassifierConfig config);

  std::unique_ptr<const Model> placed(const ModelPlace& place) const override;
  const nn::TransformerConfig& transformer() const override { return config_.bert.transformer; }
  VocabularySize vocabulary() const override {
    return {.ids = config_.bert.vocabulary, .padded = config_.bert.padded_vocabulary};
  }
  BatchSchema batch_schema() const override;
  // The name is Megatron's, "lm loss", although no language is modelled; the title is the right
  // one.
  std::vector<LossSpec> losses() const override;
  StageRange whole() const override;
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override;
  std::int64_t tokens_per_sample() const override { return config_.bert.sequence; }
  double flops_per_sample() const override;

 private:
  ClassifierConfig config_;
};

}  // namespace phalanx
