#include "phalanx/nn/embedding.h"

#include <utility>

namespace phalanx::nn {

namespace {

// Of a table whose gradient is added to row by row: zeros, unless it has a sum.
const Tensor& table_sum(Pass& pass, const Gradients& gradients, ParamId id) {
  if (!gradients.adds_to(id)) ops::fill(pass.ops, {.x = gradients[id], .value = 0.0});
  return gradients[id];
}

}  // namespace

ParamSpec word_table_parameter(std::int64_t vocabulary, std::int64_t padded_vocabulary,
                               const TransformerConfig& config) {
  ParamSpec spec =
      row_cut_parameter("embedding.word_embeddings.weight", {vocabulary, config.hidden},
                        config.dtype, {Initialiser::Kind::kNormal, config.init_deviation},
                        config.tensor.rank, config.tensor.size, padded_vocabulary);
  spec.decoupled_rate = true;
  return spec;
}

Embedding::Embedding(ParamTable& table, std::int64_t vocabulary, std::int64_t padded_vocabulary,
                     std::int64_t max_positions, bool tied, const TransformerConfig& config,
                     EmbeddingCopy copy)
    : Unit("embedding"), config_(config), tied_(tied) {
  PHALANX_CHECK(tied || copy == EmbeddingCopy::kOnly, "a copy of a word table that is not tied");
  ParamSpec word = word_table_parameter(vocabulary, padded_vocabulary, config);
  word.tied_embedding = tied;
  word.copy = copy;
  word_ = table.add(std::move(word));
  ParamSpec position =
      whole_parameter("embedding.position_embeddings.weight", {max_positions, config.hidden},
                      config.dtype, {Initialiser::Kind::kNormal, config.init_deviation});
  position_ = table.add(std::move(position));
  parameters_ = {word_, position_};
  outputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
  dsum_ = slots_.add_rows("embedding gradient", config.dtype, config.hidden, Born::kInputGradient,
                          LastReader::kWeightGradient);
}

std::int64_t Embedding::first_row(const Pass& pass) const {
  return config_.tensor.rank * pass.weights[word_].shape[0];
}

Dropout Embedding::dropout(const Pass& pass) const {
  return {.probability = pass.training ? config_.hidden_dropout : 0.0,
          .key = config_.dropout_key,
          .site = dropout_site(kEmbeddingLayer, DropoutPlace::kEmbedding)};
}

void Embedding::forward(Pass& pass, std::span<const Tensor> /*inputs*/,
                        std::span<const Tensor> outputs, const Saved& /*saved*/) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor words = config_.tensor.sequence
                           ? pass.scratch_rows(config_.stream_dtype(), config_.hidden)
                           : outputs[0];
  ops::embedding_forward(pass.ops, {.y = words,
                                    .table = pass.weights[word_],
                                    .ids = pass.batch.tokens,
                                    .first_row = first_row(pass)});
  pass.finish(pass.region.leave(pass.ops, words));
  ops::add_positions(pass.ops, {.out = outputs[0],
                                .x = pass.region.own(words),
                                .table = pass.weights[position_],
                                .ids = pass.region.own(pass.batch.position_ids),
                                .dropout = dropout(pass),
                                .rows = pass.stream_rows()});
}

void Embedding::backward_input(Pass& pass, std::span<const Tensor> /*inputs*/,
                               std::span<const Tensor> output_gradients,
                               std::span<const Tensor> /*input_gradients*/,
                               const Saved& saved) const {
  ops::dropout_backward(pass.ops, {.dx = pass.region.own(saved[dsum_]),
                                   .dout = output_gradients[0],
                                   .dropout = dropout(pass),
                                   .rows = pass.stream_rows()});
  // All rows also serve the positions: their gradient is whole on every rank, without a sum.
  pass.finish(pass.region.enter(pass.ops, saved[dsum_]));
}

void Embedding::backward_weight(Pass& pass, std::span<const Tensor> /*inputs*/, const Saved& saved,
                                const Gradients& gradients) const {
  if (tied_) {
    const SparseGradient& sparse = gradients.embedding;
    ops::sparse_embedding_gradient(pass.ops, {.slots = sparse.slots,
                                              .rows = sparse.rows,
                                              .count = sparse.count,
                                              .values = sparse.values,
                                              .ids = pass.batch.tokens,
                                              .dy = saved[dsum_],
                                              .first_row = first_row(pass)});
  } else {
    ops::embedding_gradient(pass.ops, {.dtable = table_sum(pass, gradients, word_),
                                       .ids = pass.batch.tokens,
                                       .dy = saved[dsum_],
                                       .first_row = first_row(pass)});
  }
  ops::embedding_gradient(pass.ops, {.dtable = table_sum(pass, gradients, position_),
                                     .ids = pass.batch.position_ids,
                                     .dy = saved[dsum_]});
}

}  // namespace phalanx::nn
