#pragma once
// The first unit of a model: embeddings of words, learned positions and optional token types
// (BERT's two segments), then dropout. The word table is cut by rows over the tensor-parallel group
// (vocabulary-parallel): a rank looks up its own words, and leaving the region sums the rows over
// the ranks. Positions, then types are added; each sum is rounded.

#include <optional>

#include "phalanx/nn/config.h"
#include "phalanx/nn/norm.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// embedding.word_embeddings.weight [vocabulary, h], padded to `padded_vocabulary` rows with zeros.
// Its sharing ranks are Megatron's group "embd".
ParamSpec word_table_parameter(std::int64_t vocabulary, std::int64_t padded_vocabulary,
                               const TransformerConfig& config);

// The columns of the batch that an embedding reads.
struct EmbeddingColumns {
  std::size_t tokens = 0;        // i32
  std::size_t position_ids = 0;  // i32: rows of the position table
  std::size_t types = 0;         // i32: rows of the optional type table
};

// Optional parts of an embedding beside words and positions.
struct EmbeddingExtras {
  std::int64_t token_types = 0;  // rows of embedding.tokentype_embeddings.weight
  // embedding.layernorm between the sum and dropout, as in a post-norm stack.
  bool norm = false;
};

// Which tables of an embedding other units also use, and the embedding's role among them.
struct EmbeddingSharing {
  bool words = false;      // with a tied head or another embedding
  bool positions = false;  // with another embedding ("pos_embd")
  int role = kEmbeddingRole;
  int sequence = 0;  // of the embedding's tokens
};

class Embedding final : public Unit {
 public:
  // Adds the word table and, with positions, embedding.position_embeddings.weight [max_positions,
  // h]. A decoder's embedding passes the encoder's output on.
  Embedding(ParamTable& table, std::int64_t vocabulary, std::int64_t padded_vocabulary,
            std::int64_t max_positions, const EmbeddingSharing& sharing,
            const EmbeddingColumns& columns, const TransformerConfig& config,
            const EmbeddingExtras& extras = {});

  // Backward reads no table.
  const std::vector<ParamId>& needs(PassKind pass) const override {
    return pass == PassKind::kForward ? parameters_ : norm_parameters_;
  }
  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;

 private:
  void add_positions(ParamTable& table, std::int64_t max_positions,
                     const EmbeddingSharing& sharing);
  // The word id of this rank's first row.
  std::int64_t first_row() const;
  Dropout dropout(const Pass& pass) const;
  // sum = x + rows of a table; with dropout if `last`.
  void add_table(Pass& pass, const Tensor& sum, const Tensor& x, ParamId table, std::size_t ids,
                 bool last) const;
  // sum = words + rows of all other tables.
  void add_tables(Pass& pass, const Tensor& sum, const Tensor& words) const;

  const TransformerConfig config_;
  EmbeddingColumns columns_;
  ParamUse word_, position_, type_;  // no id: no such table
  bool trains_words_ = true, trains_positions_ = false, trains_types_ = false;
  std::int64_t local_rows_ = 0;  // of the word table
  std::vector<ParamId> norm_parameters_;
  std::optional<Norm> norm_;
  SavedId sum_ = -1;  // the norm's input
  SavedId dsum_;
};

}  // namespace phalanx::nn
