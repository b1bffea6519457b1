#include "phalanx/rank/step_losses.h"

#include <cmath>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

std::vector<std::int64_t> layers_of_auxiliary_losses(const Model& model) {
  std::vector<std::int64_t> layers;
  for (const AuxiliaryLossSpec& loss : model.auxiliary_losses()) layers.push_back(loss.layers);
  return layers;
}

}  // namespace

void write_scalar(Context& context, const Tensor& scalar, double value) {
  const auto rounded = static_cast<float>(value);
  context.backend.upload(context.queue, scalar,
                         scalar.dtype == DType::kF64 ? std::as_bytes(std::span(&value, 1))
                                                     : std::as_bytes(std::span(&rounded, 1)));
}

LossMemory::LossMemory(const TrainConfig& config, const Model& model, const RankPrograms& programs,
                       const StepNumbers& numbers, Arena& workspace, Arena& host)
    : averages_microbatches(config.optimizer.loss_average == "microbatch"),
      num_losses(model.losses().size()),
      auxiliary_layers(layers_of_auxiliary_losses(model)),
      scores(family_of(config).evaluation_scores(config)),
      sums(numbers.loss_sums()),
      most_updates(sums.count() / (2 * static_cast<std::int64_t>(num_losses))),
      auxiliary_sums(numbers.auxiliary_sums()),
      scale(workspace.allocate(nn::full_precision(model.transformer().dtype), {1})) {
  const auto count = static_cast<std::int64_t>(num_losses);
  const auto reserve = [&](const Shape& shape) { return workspace.allocate(DType::kF64, shape); };
  if (averages_microbatches) of_microbatches = reserve({count, 2, programs.most_microbatches()});
  if (wants_counts()) global_counts = host.allocate(DType::kF64, {count});
  if (scores != nullptr) score_counts = host.allocate(DType::kF64, {scores->counts()});
  if (num_losses == 1) {
    const BatchSchema schema = model.batch_schema();
    mask_column = schema.index(model.losses().front().mask);
    counted_per_sample = schema.columns()[mask_column].extents[0];
  }
}

std::vector<LossResult> LossMemory::results(std::span<const double> numbers,
                                            std::int64_t first_update, std::int64_t updates,
                                            std::optional<double> count) const {
  std::vector<LossResult> results;
  const auto stride = static_cast<std::size_t>(most_updates);
  for (std::size_t loss = 0; loss < num_losses; ++loss) {
    const auto of_loss = numbers.subspan(2 * loss * stride, 2 * stride);
    double sum = 0.0;
    double counted = 0.0;
    for (std::int64_t u = first_update; u < first_update + updates; ++u) {
      sum += of_loss[static_cast<std::size_t>(u)];
      counted += of_loss[stride + static_cast<std::size_t>(u)];
    }
    const double divisor = count.value_or(counted);
    results.push_back({.mean = divisor > 0.0 ? sum / divisor : 0.0, .count = divisor});
  }
  return results;
}

std::vector<double> LossMemory::auxiliary_results(std::span<const double> numbers,
                                                  std::int64_t first_update, std::int64_t updates,
                                                  double microbatches) const {
  std::vector<double> results;
  for (std::size_t loss = 0; loss < auxiliary_layers.size(); ++loss) {
    const std::int64_t first = static_cast<std::int64_t>(loss) * most_updates + first_update;
    double sum = 0.0;
    for (const double of_update :
         numbers.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(updates))) {
      sum += of_update;
    }
    results.push_back(sum / (microbatches * static_cast<double>(updates) *
                             static_cast<double>(auxiliary_layers[loss])));
  }
  return results;
}

StepLosses::StepLosses(const TrainConfig& config, const LossMemory& memory,
                       const RankCommunicators& ranks, const RankProgram& program, Context& context,
                       Context& host_context)
    : layout_(config.layout),
      memory_(memory),
      ranks_(ranks),
      program_(program),
      context_(context),
      host_context_(host_context),
      terms_(memory.num_losses),
      auxiliary_terms_(memory.auxiliary_layers.size()) {
  ops::fill(context_, {.x = memory.sums, .value = 0.0});
  if (memory.auxiliary_sums) ops::fill(context_, {.x = memory.auxiliary_sums, .value = 0.0});
  if (memory.of_microbatches) ops::fill(context_, {.x = memory.of_microbatches, .value = 0.0});
}

// All stages read the same samples, so each sums for itself.
void StepLosses::count(const std::vector<double>& own) {
  const Tensor& counts = memory_.global_counts;
  Context& host = host_context_;
  if (!own.empty()) {
    PHALANX_CHECK(own.size() == terms_.size(), "counts of {} losses", own.size());
    host.backend.upload(host.queue, counts, std::as_bytes(std::span(own)));
  }
  if (Communicator* tensor = ranks_.on_host(ranks_.tensor.get())) {
    tensor->broadcast(host, counts, 0).wait(host.queue);
  }
  sum_over(host, ranks_.on_host(ranks_.data.get()), counts);
  counts_.assign(terms_.size(), 1.0);
  host.backend.read_back(host.queue, counts, std::as_writable_bytes(std::span(counts_)));
}

std::span<const nn::AuxiliaryTerm> StepLosses::auxiliary_terms(int microbatch) {
  const std::int64_t update = microbatch / program_.microbatches_per_update;
  for (std::size_t loss = 0; loss < auxiliary_terms_.size(); ++loss) {
    const std::int64_t place = static_cast<std::int64_t>(loss) * memory_.most_updates + update;
    auxiliary_terms_[loss] = {.sum = memory_.auxiliary_sums.slice(0, place, 1),
                              .factor = 1.0 / microbatches_per_update()};
  }
  return auxiliary_terms_;
}

std::span<const nn::LossTerm> StepLosses::terms(int microbatch) {
  const std::int64_t update = microbatch / program_.microbatches_per_update;
  for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
    nn::LossTerm& term = terms_[loss];
    if (memory_.averages_microbatches) {
      const Tensor of_loss = memory_.of_microbatches.select(0, static_cast<std::int64_t>(loss));
      term = {.sum = of_loss.select(0, 0).slice(0, microbatch, 1),
              .count = of_loss.select(0, 1).slice(0, microbatch, 1),
              .factor = 1.0 / microbatches_per_update()};
    } else {
      term = {.sum = part(loss, Part::kSum, update),
              .count = part(loss, Part::kCount, update),
              .factor = factor(loss)};
    }
  }
  return terms_;
}

Tensor StepLosses::divisor(std::int64_t update) const {
  const bool divides = !memory_.averages_microbatches && !memory_.wants_counts();
  return divides ? part(0, Part::kCount, update) : Tensor{};
}

double StepLosses::tokens_per_update() const {
  return microbatches_per_update() *
         static_cast<double>(layout_.micro_batch_size * memory_.counted_per_sample);
}

// Also those that are masked throughout.
std::optional<double> StepLosses::fixed_count(std::int64_t updates) const {
  if (!memory_.averages_microbatches) return std::nullopt;
  return static_cast<double>(updates) * microbatches_per_update();
}

// A microbatch that is masked throughout has no mean and is not counted. Ranks without the head
// leave zeros.
void StepLosses::average_microbatches() const {
  const Tensor& microbatches = memory_.of_microbatches;
  // A microbatch's rows may lie on several ranks, which then all have its mean: one counts it.
  sum_over(context_, ranks_.context.get(), microbatches);
  if (ranks_.coordinates.context > 0) return;
  const std::int64_t columns = microbatches.shape[2];
  std::vector<double> parts(static_cast<std::size_t>(microbatches.count()));
  context_.backend.read_back(context_.queue, microbatches,
                             std::as_writable_bytes(std::span(parts)));
  std::vector<double> sums(static_cast<std::size_t>(memory_.sums.count()), 0.0);
  for (std::int64_t loss = 0; loss < std::ssize(terms_); ++loss) {
    for (std::int64_t m = 0; m < program_.microbatches(); ++m) {
      const double sum = parts[static_cast<std::size_t>(2 * loss * columns + m)];
      const double count = parts[static_cast<std::size_t>((2 * loss + 1) * columns + m)];
      if (count == 0.0) continue;
      const std::int64_t update = m / program_.microbatches_per_update;
      sums[static_cast<std::size_t>(2 * loss * memory_.most_updates + update)] += sum / count;
      sums[static_cast<std::size_t>((2 * loss + 1) * memory_.most_updates + update)] += 1.0;
    }
  }
  context_.backend.upload(context_.queue, memory_.sums,
                          std::as_bytes(std::span(std::as_const(sums))));
}

void StepLosses::sum_over_ranks() const {
  if (memory_.averages_microbatches) average_microbatches();
  sum_over(context_, ranks_.data.get(), memory_.sums);
  sum_over(context_, ranks_.pipeline.get(), memory_.sums);
  if (!memory_.auxiliary_sums) return;
  // Each rank has the part of its rows and layers.
  sum_over(context_, ranks_.tensor.get(), memory_.auxiliary_sums);
  sum_over(context_, ranks_.data.get(), memory_.auxiliary_sums);
  sum_over(context_, ranks_.pipeline.get(), memory_.auxiliary_sums);
}

void StepLosses::sum_losses_over_ranks() const {
  if (memory_.averages_microbatches) average_microbatches();
  for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
    sum_over(context_, ranks_.data.get(), parts(loss, Part::kSum));
    sum_over(context_, ranks_.pipeline.get(), parts(loss, Part::kSum));
  }
}

std::vector<LossResult> StepLosses::read() const {
  std::vector<double> numbers(static_cast<std::size_t>(memory_.sums.count()));
  context_.backend.read_back(context_.queue, memory_.sums,
                             std::as_writable_bytes(std::span(numbers)));
  return memory_.results(numbers, 0, 1, std::nullopt);
}

double StepLosses::microbatches_per_update() const {
  return static_cast<double>(program_.microbatches_per_update * data_parallel_size(layout_));
}

// With one loss alone a constant: the end of the step divides by what is unmasked.
double StepLosses::factor(std::size_t loss) const {
  if (!memory_.wants_counts()) return 1.0 / tokens_per_update();
  if (loss >= counts_.size()) return 1.0;  // an evaluation does not count
  return counts_[loss] > 0.0 ? 1.0 / counts_[loss] : 0.0;
}

Tensor StepLosses::parts(std::size_t loss, Part part) const {
  const auto row = static_cast<std::int64_t>(2 * loss + static_cast<std::size_t>(part));
  return memory_.sums.slice(0, row * memory_.most_updates, memory_.most_updates);
}

Tensor StepLosses::part(std::size_t loss, Part part, std::int64_t update) const {
  return parts(loss, part).slice(0, update, 1);
}

}  // namespace phalanx
