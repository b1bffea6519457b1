#include "phalanx/nn/language_model_head.h"

#include <algorithm>
#include <utility>

namespace phalanx::nn {
namespace {

// Rows of fp32 logits at a time, where they are not the saved tensor itself: 256 x 50,304 x 4 B =
// 49 MiB.
constexpr std::int64_t kLogitRows = 256;

ParamId output_parameter(ParamTable& table, ParamId word_table, std::int64_t vocabulary,
                         std::int64_t padded_vocabulary, const TransformerConfig& config) {
  if (word_table >= 0) return word_table;
  ParamSpec spec =
      row_cut_parameter("output_layer.weight", {vocabulary, config.hidden}, config.dtype,
                        {Initialiser::Kind::kNormal, config.init_deviation}, config.tensor.rank,
                        config.tensor.size, padded_vocabulary);
  spec.decoupled_rate = true;
  return table.add(std::move(spec));
}

}  // namespace

LanguageModelHead::LanguageModelHead(ParamTable& table, ParamId word_table, std::int64_t vocabulary,
                                     std::int64_t padded_vocabulary,
                                     const TransformerConfig& config)
    : Unit("head"),
      config_(config),
      vocabulary_(vocabulary),
      columns_(padded_vocabulary / config.tensor.size),
      norm_(table, parameters_, slots_, "decoder.final_layernorm", config),
      output_(output_parameter(table, word_table, vocabulary, padded_vocabulary, config)) {
  parameters_.push_back(output_);
  inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
  dlogits_ = slots_.add_rows("logit gradient", config.dtype, columns_, Born::kForward,
                             LastReader::kWeightGradient);
}

void LanguageModelHead::forward(Pass& pass, std::span<const Tensor> inputs,
                                std::span<const Tensor> /*outputs*/, const Saved& saved) const {
  if (pass.logits && !pass.row_losses) {
    last_logits(pass, inputs[0], saved);
    return;
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const DType full = full_precision(config_.dtype);
  const std::int64_t rows = pass.shape.rows();
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.forward(pass, pass.region.own(normed), inputs[0], saved);
  pass.finish(pass.region.enter(pass.ops, normed));
  const Tensor loss = pass.row_losses ? pass.row_losses : pass.scratch(full, {rows});
  const Tensor seed = pass.scratch(full, {1});
  const Tensor mask = pass.batch.loss_mask.reshape({rows});
  const Tensor labels = pass.batch.labels.reshape({rows});
  if (pass.training) {
    ops::loss_seed(pass.ops, {.seed = seed,
                              .loss_scale = pass.loss_settings.loss_scale,
                              .mask = pass.loss_settings.mean_of_microbatch ? mask : Tensor{},
                              .factor = pass.loss_settings.factor});
  }
  const bool in_place = config_.dtype == full;
  const Tensor dlogits = saved[dlogits_].rows();
  const std::int64_t step = in_place ? rows : std::min(rows, kLogitRows);
  const Tensor chunk = in_place ? dlogits : pass.scratch(full, {step, columns_});
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    const Tensor logits = chunk.slice(0, 0, count);
    ops::linear_forward(pass.ops, {.y = logits,
                                   .x = normed.rows().slice(0, begin, count),
                                   .weight = pass.weights[output_],
                                   .bias = {}});
    if (pass.logits && begin + count == rows) {
      ops::copy(pass.ops, {.destination = pass.logits, .source = logits.slice(0, count - 1, 1)});
    }
    cross_entropy(pass, {.loss = loss.slice(0, begin, count),
                         .dlogits = pass.training ? dlogits.slice(0, begin, count) : Tensor{},
                         .logits = logits,
                         .targets = labels.slice(0, begin, count),
                         .mask = mask.slice(0, begin, count),
                         .seed = seed});
  }
  ops::loss_accumulate(
      pass.ops, {.sum = pass.losses.sum, .count = pass.losses.count, .loss = loss, .mask = mask});
}

void LanguageModelHead::cross_entropy(Pass& pass, const Rows& rows) const {
  if (!pass.region.is_parallel()) {
    ops::cross_entropy(pass.ops, {.loss = rows.loss,
                                  .dlogits = rows.dlogits,
                                  .logits = rows.logits,
                                  .targets = rows.targets,
                                  .mask = rows.mask,
                                  .seed = rows.seed,
                                  .vocabulary = vocabulary_});
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
                                           .first_column = first_column,
                                           .vocabulary = vocabulary_});
  pass.finish(pass.region.group().all_gather(pass.ops, statistics, own));
  ops::vocabulary_parallel_cross_entropy(pass.ops, {.loss = rows.loss,
                                                    .dlogits = rows.dlogits,
                                                    .logits = rows.logits,
                                                    .statistics = statistics,
                                                    .targets = rows.targets,
                                                    .mask = rows.mask,
                                                    .seed = rows.seed,
                                                    .first_column = first_column,
                                                    .vocabulary = vocabulary_});
}

void LanguageModelHead::last_logits(Pass& pass, const Tensor& x, const Saved& saved) const {
  PHALANX_CHECK(!pass.region.is_parallel(), "generation runs on one rank");
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.forward(pass, normed, x, saved);
  ops::linear_forward(pass.ops, {.y = pass.logits,
                                 .x = normed.select(0, pass.shape.sequence - 1),
                                 .weight = pass.weights[output_],
                                 .bias = {}});
}

void LanguageModelHead::backward_input(Pass& pass, std::span<const Tensor> inputs,
                                       std::span<const Tensor> /*output_gradients*/,
                                       std::span<const Tensor> input_gradients,
                                       const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  input_gradient(pass, dnorm, saved);
  pass.finish(pass.region.leave(pass.ops, dnorm));
  norm_.backward_input(pass, input_gradients[0], pass.region.own(dnorm), inputs[0], {}, saved);
}

void LanguageModelHead::backward_weight(Pass& pass, std::span<const Tensor> inputs,
                                        const Saved& saved, const Gradients& gradients) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), inputs[0], saved);
  pass.finish(pass.region.enter(pass.ops, normed));
  weight_gradient(pass, normed, saved, gradients);
  norm_.backward_weight(pass, saved, gradients);
}

void LanguageModelHead::backward(Pass& pass, std::span<const Tensor> inputs,
                                 std::span<const Tensor> output_gradients,
                                 std::span<const Tensor> input_gradients, const Saved& saved,
                                 const Gradients& gradients) const {
  if (!pass.region.overlaps()) {
    return Unit::backward(pass, inputs, output_gradients, input_gradients, saved, gradients);
  }
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor normed = pass.scratch_rows(config_.dtype, config_.hidden);
  norm_.apply(pass, pass.region.own(normed), inputs[0], saved);
  const Work gathering = pass.region.enter(pass.ops, normed);
  const Tensor dnorm = pass.scratch_rows(config_.dtype, config_.hidden);
  input_gradient(pass, dnorm, saved);
  const Work reducing = pass.region.leave(pass.ops, dnorm);
  pass.finish(gathering);
  weight_gradient(pass, normed, saved, gradients);
  pass.finish(reducing);
  norm_.backward_input(pass, input_gradients[0], pass.region.own(dnorm), inputs[0], {}, saved);
  norm_.backward_weight(pass, saved, gradients);
}

void LanguageModelHead::input_gradient(Pass& pass, const Tensor& dnorm, const Saved& saved) const {
  ops::linear_input_gradient(
      pass.ops,
      {.dx = dnorm.rows(), .dy = saved[dlogits_].rows(), .weight = pass.weights[output_]});
}

void LanguageModelHead::weight_gradient(Pass& pass, const Tensor& normed, const Saved& saved,
                                        const Gradients& gradients) const {
  ops::linear_weight_gradient(pass.ops, {.dweight = gradients[output_],
                                         .dy = saved[dlogits_].rows(),
                                         .x = normed.rows(),
                                         .accumulate = gradients.adds_to(output_)});
}

}  // namespace phalanx::nn
