#pragma once
// Word and learned position embeddings with dropout: the first unit of a model. The word table is
// cut over the tensor-parallel group by rows (vocabulary-parallel): a rank looks up the words it
// has, and leaving the region adds the rows up. Positions are added to the stream.

#include "phalanx/nn/config.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// embedding.word_embeddings.weight [vocabulary, h], padded to `padded_vocabulary` rows of zeros.
ParamSpec word_table_parameter(std::int64_t vocabulary, std::int64_t padded_vocabulary,
                               const TransformerConfig& config);

class Embedding final : public Unit {
 public:
  // Adds the word table and embedding.position_embeddings.weight [max_positions, h]. A tied word
  // table is also the head's, which has a copy where that is on another rank of the pipeline.
  Embedding(ParamTable& table, std::int64_t vocabulary, std::int64_t padded_vocabulary,
            std::int64_t max_positions, bool tied, const TransformerConfig& config,
            EmbeddingCopy copy = EmbeddingCopy::kOnly);

  void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               const Saved& saved) const override;
  void backward_input(Pass& pass, std::span<const Tensor> inputs,
                      std::span<const Tensor> output_gradients,
                      std::span<const Tensor> input_gradients, const Saved& saved) const override;
  void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  // The word of this rank's first row.
  std::int64_t first_row(const Pass& pass) const;
  Dropout dropout(const Pass& pass) const;

  const TransformerConfig config_;
  bool tied_;
  ParamId word_, position_;
  SavedId dsum_;
};

}  // namespace phalanx::nn
