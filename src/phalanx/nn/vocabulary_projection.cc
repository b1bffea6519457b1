#include "phalanx/nn/vocabulary_projection.h"

#include <algorithm>
#include <utility>

#include "phalanx/nn/embedding.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

// Rows of fp32 logits at a time, where they are not the saved tensor itself: 256 x 50,304 x 4 B =
// 49 MiB.
constexpr std::int64_t kLogitRows = 256;

ParamUse output_parameter(ParamTable& table, const VocabularyOptions& options,
                          const TransformerConfig& config) {
  if (options.tied) {
    return table.add_shared(
        word_table_parameter(options.vocabulary, options.padded_vocabulary, config),
        {.order = kHeadRole});
  }
  ParamSpec spec =
      row_cut_parameter(options.name + ".weight", {options.vocabulary, config.hidden}, config.dtype,
                        {Initialiser::Kind::kNormal, config.init_deviation}, config.tensor.rank,
                        config.tensor.size, options.padded_vocabulary);
  spec.decoupled_rate = true;
  return {table.add(std::move(spec))};
}

// `last` gets the last rows of `all` rows of logits; `rows` are those from `begin` on: copies the
// overlap.
void copy_last(Pass& pass, const Tensor& last, const Tensor& rows, std::int64_t begin,
               std::int64_t all) {
  const std::int64_t first_wanted = std::max(begin, all - last.shape[0]);
  const std::int64_t count = begin + rows.shape[0] - first_wanted;
  if (count <= 0) return;
  ops::copy(pass.ops, {.destination = last.slice(0, first_wanted - (all - last.shape[0]), count),
                       .source = rows.slice(0, first_wanted - begin, count)});
}

// [1]: the sum of the masks of all ranks that have rows of the samples.
Tensor count_on_all_ranks(Pass& pass, const Tensor& mask) {
  const Tensor count = pass.scratch(mask.dtype, {1});
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor sums = pass.scratch(DType::kF64, {2});
  ops::fill(pass.ops, {.x = sums, .value = 0.0});
  const Tensor own = sums.slice(0, 0, 1);
  ops::loss_accumulate(pass.ops,
                       {.sum = sums.slice(0, 1, 1), .count = own, .loss = mask, .mask = mask});
  pass.finish(pass.context.group().all_reduce(pass.ops, own, Reduction::kSum));
  ops::copy(pass.ops, {.destination = count, .source = own});
  return count;
}

}  // namespace

void seed_loss(Pass& pass, const Tensor& seed, const Tensor& mask, const LossTerm& term) {
  if (!pass.training) return;
  const WorkspaceScope scope(pass.ops.workspace);
  Tensor counted;
  if (pass.loss_settings.mean_of_microbatch) {
    counted = pass.context.size() == 1 ? mask : count_on_all_ranks(pass, mask);
  }
  ops::loss_seed(pass.ops, {.seed = seed,
                            .loss_scale = pass.loss_settings.loss_scale,
                            .mask = counted,
                            .factor = term.factor});
}

VocabularyProjection::VocabularyProjection(ParamTable& table, std::vector<ParamId>& owned,
                                           SavedSlots& slots, const VocabularyOptions& options,
                                           const TransformerConfig& config)
    : config_(config),
      options_(options),
      columns_(options.padded_vocabulary / config.tensor.size),
      weight_(output_parameter(table, options, config)),
      trains_weight_(table.trains(weight_.id)),
      dlogits_(slots.add_rows("logit gradient", config.dtype, columns_, Born::kForward,
                              LastReader::kWeightGradient)) {
  owned.push_back(weight_.id);
  if (!options.bias) return;
  bias_ = table.add(row_cut_parameter(options.name + ".bias", {options.vocabulary}, config.dtype,
                                      {}, config.tensor.rank, config.tensor.size,
                                      options.padded_vocabulary));
  owned.push_back(bias_);
  trains_bias_ = table.trains(bias_);
}

void VocabularyProjection::scale_rows(Pass& pass, const Tensor& rows) const {
  if (options_.row_scale == 1.0) return;
  ops::scale(pass.ops, {.y = rows, .x = rows, .factor = options_.row_scale});
}

void VocabularyProjection::logits(Pass& pass, const Tensor& logits, const Tensor& rows) const {
  scale_rows(pass, rows);
  ops::linear_forward(pass.ops, {.y = logits,
                                 .x = rows,
                                 .weight = pass.weights[weight_.id],
                                 .bias = pass.weights.if_any(bias_)});
}

void VocabularyProjection::whole_logits(Pass& pass, const Tensor& all, const Tensor& rows) const {
  if (!pass.region.is_parallel()) return logits(pass, all, rows);
  const WorkspaceScope scope(pass.ops.workspace);
  const TensorParallel& layout = config_.tensor;
  const Tensor parts = pass.scratch(all.dtype, {layout.size, rows.shape[0], columns_});
  const Tensor own = parts.select(0, layout.rank);
  logits(pass, own, rows);
  pass.finish(pass.region.group().all_gather(pass.ops, parts, own));
  for (int rank = 0; rank < layout.size; ++rank) {
    ops::copy(pass.ops, {.destination = all.slice(1, rank * columns_, columns_),
                         .source = parts.select(0, rank)});
  }
}

void VocabularyProjection::losses(Pass& pass, const Tensor& entered, const Saved& saved,
                                  const Tensor& row_losses, const Tensor& last_logits) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const DType full = full_precision(config_.dtype);
  const std::int64_t rows = pass.shape.rows();
  const LossTerm& term = pass.losses[options_.loss];
  const Tensor loss = row_losses ? row_losses : pass.scratch(full, {rows});
  const Tensor seed = pass.scratch(full, {1});
  const Tensor mask = pass.batch[options_.columns.loss_mask].reshape({rows});
  const Tensor labels = pass.batch[options_.columns.labels].reshape({rows});
  seed_loss(pass, seed, mask, term);
  const bool in_place = config_.dtype == full;
  const Tensor dlogits = saved[dlogits_].rows();
  const std::int64_t step = in_place ? rows : std::min(rows, kLogitRows);
  const Tensor chunk = in_place ? dlogits : pass.scratch(full, {step, columns_});
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    const Tensor own = chunk.slice(0, 0, count);
    logits(pass, own, entered.rows().slice(0, begin, count));
    if (last_logits) copy_last(pass, last_logits, own, begin, rows);
    cross_entropy(pass, {.loss = loss.slice(0, begin, count),
                         .dlogits = pass.training ? dlogits.slice(0, begin, count) : Tensor{},
                         .logits = own,
                         .targets = labels.slice(0, begin, count),
                         .mask = mask.slice(0, begin, count),
                         .seed = seed});
  }
  ops::loss_accumulate(pass.ops,
                       {.sum = term.sum, .count = term.count, .loss = loss, .mask = mask});
}

void VocabularyProjection::cross_entropy(Pass& pass, const Rows& rows) const {
  if (!pass.region.is_parallel()) {
    ops::cross_entropy(pass.ops, {.loss = rows.loss,
                                  .dlogits = rows.dlogits,
                                  .logits = rows.logits,
                                  .targets = rows.targets,
                                  .mask = rows.mask,
                                  .seed = rows.seed,
                                  .vocabulary = options_.vocabulary});
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const TensorParallel& layout = config_.tensor;
  const std::int64_t first_column = layout.rank * columns_;
  const Tensor statistics = pass.scratch(rows.loss.dtype, {layout.size, 3, rows.logits.shape[0]});
  const Tensor own = statistics.select(0, layout.rank);
  ops::cross_entropy_statistics(pass.ops, {.statistics = own,
                                           .logits = rows.logits,
                                           .targets = rows.targets,
                                           .mask = rows.mask,
                                           .first_column = first_column,
                                           .vocabulary = options_.vocabulary});
  pass.finish(pass.region.group().all_gather(pass.ops, statistics, own));
  ops::vocabulary_parallel_cross_entropy(pass.ops, {.loss = rows.loss,
                                                    .dlogits = rows.dlogits,
                                                    .logits = rows.logits,
                                                    .statistics = statistics,
                                                    .targets = rows.targets,
                                                    .mask = rows.mask,
                                                    .seed = rows.seed,
                                                    .first_column = first_column,
                                                    .vocabulary = options_.vocabulary});
}

void VocabularyProjection::entry_input_gradient(BodyCall& call, const Tensor& dentered) const {
  ops::linear_input_gradient(call.pass.ops, {.dx = dentered.rows(),
                                             .dy = call.saved[dlogits_].rows(),
                                             .weight = call.pass.weights[weight_.id]});
  scale_rows(call.pass, dentered.rows());
}

void VocabularyProjection::entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                                 const Gradients& gradients) const {
  const Tensor dlogits = call.saved[dlogits_].rows();
  if (!trains_weight_) {
    if (!trains_bias_) return;
    ops::bias_gradient(
        call.pass.ops,
        {.dbias = gradients[bias_], .dy = dlogits, .accumulate = gradients.is_written(bias_)});
    return gradients.mark_written(bias_);
  }
  scale_rows(call.pass, entered.rows());
  const bool adds = gradients.is_written(weight_);
  PHALANX_CHECK(!trains_bias_ || adds == gradients.is_written(bias_),
                "{}: a weight and its bias are of one pass", options_.name);
  gradients.mark_written(weight_);
  if (trains_bias_) gradients.mark_written(bias_);
  ops::linear_weight_gradient(call.pass.ops, {.dweight = gradients[weight_],
                                              .dy = dlogits,
                                              .x = entered.rows(),
                                              .accumulate = adds,
                                              .dbias = trains_bias_ ? gradients[bias_] : Tensor{}});
}

}  // namespace phalanx::nn
