#include "phalanx/nn/embedding.h"

#include <utility>

#include "phalanx/nn/encoder_norm.h"

namespace phalanx::nn {

namespace {

// Adds the rows of dy to the rows `ids` of a table's gradient, which begins as zeros.
void add_table_gradient(Pass& pass, const Gradients& gradients, const ParamUse& table,
                        const Tensor& ids, const Tensor& dy, std::int64_t first_row = 0) {
  const Tensor& dtable = gradients[table];
  if (!gradients.is_written(table)) ops::fill(pass.ops, {.x = dtable, .value = 0.0});
  gradients.mark_written(table);
  ops::embedding_gradient(pass.ops,
                          {.dtable = dtable, .ids = ids, .dy = dy, .first_row = first_row});
}

ParamUse add_shared_table(ParamTable& table, ParamSpec spec, bool shared, const ParamRole& role) {
  return shared ? table.add_shared(std::move(spec), role) : ParamUse{table.add(std::move(spec))};
}

}  // namespace

ParamSpec word_table_parameter(std::int64_t vocabulary, std::int64_t padded_vocabulary,
                               const TransformerConfig& config) {
  ParamSpec spec =
      row_cut_parameter("embedding.word_embeddings.weight", {vocabulary, config.hidden},
                        config.dtype, {Initialiser::Kind::kNormal, config.init_deviation},
                        config.tensor.rank, config.tensor.size, padded_vocabulary);
  spec.decoupled_rate = true;
  spec.shared_by = "embd";
  return spec;
}

Embedding::Embedding(ParamTable& table, std::int64_t vocabulary, std::int64_t padded_vocabulary,
                     std::int64_t max_positions, const EmbeddingSharing& sharing,
                     const EmbeddingColumns& columns, const TransformerConfig& config,
                     const EmbeddingExtras& extras)
    : Unit(config.sequence == Sequence::kDecoder ? "decoder embedding" : "embedding",
           config.sequence),
      config_(config),
      columns_(columns) {
  PHALANX_CHECK(max_positions > 0 || (extras.token_types == 0 && !extras.norm),
                "types or a norm without positions");
  word_ = add_shared_table(table, word_table_parameter(vocabulary, padded_vocabulary, config),
                           sharing.words,
                           {.order = sharing.role,
                            .gradient = ParamRole::Gradient::kRows,
                            .sequence = sharing.sequence});
  local_rows_ = table[word_.id].local_shape[0];
  parameters_ = {word_.id};
  if (max_positions > 0) add_positions(table, max_positions, sharing);
  if (extras.token_types > 0) {
    type_.id = table.add(whole_parameter("embedding.tokentype_embeddings.weight",
                                         {extras.token_types, config.hidden}, config.dtype,
                                         {Initialiser::Kind::kNormal, config.init_deviation}));
    parameters_.push_back(type_.id);
  }
  if (extras.norm) {
    PHALANX_CHECK(!config.fp32_residual, "a norm behind the embedding has its type's stream");
    norm_.emplace(table, norm_parameters_, slots_, "embedding.layernorm", config);
    parameters_.insert(parameters_.end(), norm_parameters_.begin(), norm_parameters_.end());
    sum_ = slots_.add_stream("embedding sum", config.dtype, config.hidden, Born::kForward,
                             LastReader::kInputGradient);
  }
  outputs_ = {{.name = "hidden states",
               .dtype = config.stream_dtype(),
               .width = config.hidden,
               .sequence = config.sequence}};
  if (config.sequence == Sequence::kDecoder) {
    inputs_ = {encoder_output_stream(config)};
    outputs_.push_back(inputs_[0]);
  }
  trains_words_ = table.trains(word_.id);
  trains_positions_ = table.trains(position_.id);
  trains_types_ = table.trains(type_.id);
  dsum_ = slots_.add_rows("embedding gradient", config.dtype, config.hidden, Born::kInputGradient,
                          last_reader_if(trains_words_ || trains_positions_ || trains_types_));
}

void Embedding::add_positions(ParamTable& table, std::int64_t max_positions,
                              const EmbeddingSharing& sharing) {
  ParamSpec position =
      whole_parameter("embedding.position_embeddings.weight", {max_positions, config_.hidden},
                      config_.dtype, {Initialiser::Kind::kNormal, config_.init_deviation});
  position.shared_by = "pos_embd";
  position_ =
      add_shared_table(table, std::move(position), sharing.positions, {.order = sharing.role});
  parameters_.push_back(position_.id);
}

std::int64_t Embedding::first_row() const { return config_.tensor.rank * local_rows_; }

Dropout Embedding::dropout(const Pass& pass) const {
  return config_.hidden_dropout_at(kEmbeddingLayer, DropoutPlace::kEmbedding, pass.training);
}

void Embedding::add_table(Pass& pass, const Tensor& sum, const Tensor& x, ParamId table,
                          std::size_t ids, bool last) const {
  ops::add_positions(pass.ops, {.out = sum,
                                .x = x,
                                .table = pass.weights[table],
                                .ids = pass.region.own(pass.batch[ids]),
                                .dropout = last ? dropout(pass) : Dropout{},
                                .rows = pass.stream_rows()});
}

void Embedding::add_tables(Pass& pass, const Tensor& sum, const Tensor& words) const {
  if (position_.id < 0) {
    // Dropout is linear: forward is its own backward.
    ops::dropout_backward(
        pass.ops, {.dx = sum, .dout = words, .dropout = dropout(pass), .rows = pass.stream_rows()});
    return;
  }
  const bool has_types = type_.id >= 0;
  add_table(pass, sum, words, position_.id, columns_.position_ids, !has_types && !norm_);
  if (has_types) add_table(pass, sum, sum, type_.id, columns_.types, !norm_);
}

void Embedding::forward(Pass& pass, Tensors /*inputs*/, Tensors outputs, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor sum = norm_ ? saved[sum_] : outputs[0];
  const Tensor words =
      config_.tensor.sequence ? pass.scratch_rows(config_.stream_dtype(), config_.hidden) : sum;
  ops::embedding_forward(pass.ops, {.y = words,
                                    .table = pass.weights[word_.id],
                                    .ids = pass.batch[columns_.tokens],
                                    .first_row = first_row()});
  pass.finish(pass.region.leave(pass.ops, words));
  add_tables(pass, sum, pass.region.own(words));
  if (!norm_) return;
  norm_->forward(pass, outputs[0], sum, saved);
  ops::dropout_backward(
      pass.ops,
      {.dx = outputs[0], .dout = outputs[0], .dropout = dropout(pass), .rows = pass.stream_rows()});
}

void Embedding::backward_input(Pass& pass, Tensors /*inputs*/, Tensors output_gradients,
                               Tensors /*input_gradients*/, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dsum = pass.region.own(saved[dsum_]);
  const Tensor dropped = norm_ ? pass.scratch_stream(config_.dtype, config_.hidden) : dsum;
  ops::dropout_backward(pass.ops, {.dx = dropped,
                                   .dout = output_gradients[0],
                                   .dropout = dropout(pass),
                                   .rows = pass.stream_rows()});
  if (norm_) norm_->backward_input(pass, dsum, dropped, saved[sum_], {}, saved);
  // With all rows here the gradients of positions and types are whole on every rank: no sum over
  // ranks is needed.
  pass.finish(pass.region.enter(pass.ops, saved[dsum_]));
}

void Embedding::backward_weight(Pass& pass, Tensors /*inputs*/, const Saved& saved,
                                const Gradients& gradients) const {
  if (trains_words_ && gradients.has_rows(word_)) {
    const SparseGradient& sparse = gradients.rows(word_);
    gradients.mark_written(word_);
    ops::sparse_embedding_gradient(pass.ops, {.slots = sparse.slots,
                                              .rows = sparse.rows,
                                              .count = sparse.count,
                                              .values = sparse.values,
                                              .ids = pass.batch[columns_.tokens],
                                              .dy = saved[dsum_],
                                              .first_row = first_row()});
  } else if (trains_words_) {
    add_table_gradient(pass, gradients, word_, pass.batch[columns_.tokens], saved[dsum_],
                       first_row());
  }
  if (trains_positions_) {
    add_table_gradient(pass, gradients, position_, pass.batch[columns_.position_ids], saved[dsum_]);
  }
  if (trains_types_) {
    add_table_gradient(pass, gradients, type_, pass.batch[columns_.types], saved[dsum_]);
  }
  if (norm_) norm_->backward_weight(pass, saved, gradients);
}

}  // namespace phalanx::nn
