#pragma once
// The first unit of a model: word and learned position embeddings, those of token types (BERT's two
// segments) where the model has them, then dropout. The word table is cut over the tensor-parallel
// group by rows (vocabulary-parallel): a rank looks up the words it has, and leaving the region
// sums the rows over the ranks. Positions, then types are added, each sum rounded.

#include <optional>

#include "phalanx/nn/config.h"
#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// embedding.word_embeddings.weight [vocabulary, h], padded to `padded_vocabulary` rows of zeros.
// The ranks that share it are Megatron's group "embd".
ParamSpec word_table_parameter(std::int64_t vocabulary, std::int64_t padded_vocabulary,
                               const TransformerConfig& config);

// The numbers of the batch's columns that an embedding reads.
struct EmbeddingColumns {
  std::size_t tokens = 0;        // i32
  std::size_t position_ids = 0;  // i32: rows of the position table
  std::size_t types = 0;         // i32: rows of the type table, where there is one
};

// What some embeddings have in addition to words and positions.
struct EmbeddingExtras {
  std::int64_t token_types = 0;  // rows of embedding.tokentype_embeddings.weight
  // embedding.layernorm, between the sum and dropout: a post-norm stack has it.
  bool norm = false;
};

// Which of an embedding's tables other units use too, and the embedding's role among the users.
struct EmbeddingSharing {
  bool words = false;      // with a tied head or another embedding
  bool positions = false;  // with another embedding ("pos_embd")
  int role = kEmbeddingRole;
  int sequence = 0;  // of the embedding's tokens
};

class Embedding final : public Unit {
 public:
  // Adds the word table and, where there are positions, embedding.position_embeddings.weight
  // [max_positions, h]. The decoder's embedding of a model with an encoder passes the encoder's
  // output on.
  Embedding(ParamTable& table, std::int64_t vocabulary, std::int64_t padded_vocabulary,
            std::int64_t max_positions, const EmbeddingSharing& sharing,
            const EmbeddingColumns& columns, const TransformerConfig& config,
            const EmbeddingExtras& extras = {});

  // Backward reads no table.
  const std::vector<ParamId>& needs(PassKind pass) const override {
    return pass == PassKind::kForward ? parameters_ : norm_parameters_;
  }
  void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               const Saved& saved) const override;
  void backward_input(Pass& pass, std::span<const Tensor> inputs,
                      std::span<const Tensor> output_gradients,
                      std::span<const Tensor> input_gradients, const Saved& saved) const override;
  void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  void add_positions(ParamTable& table, std::int64_t max_positions,
                     const EmbeddingSharing& sharing);
  // The id of the word in this rank's first row.
  std::int64_t first_row() const;
  Dropout dropout(const Pass& pass) const;
  // sum = x + rows of a table; with dropout if `last`.
  void add_table(Pass& pass, const Tensor& sum, const Tensor& x, ParamId table, std::size_t ids,
                 bool last) const;
  // sum = words + rows of all other tables.
  void add_tables(Pass& pass, const Tensor& sum, const Tensor& words) const;

  const TransformerConfig config_;
  EmbeddingColumns columns_;
  ParamUse word_, position_, type_;  // no id: there is no such table
  std::int64_t local_rows_ = 0;      // of the word table
  std::vector<ParamId> norm_parameters_;
  std::optional<Norm> norm_;
  SavedId sum_ = -1;  // the norm's input
  SavedId dsum_;
};

}  // namespace phalanx::nn
