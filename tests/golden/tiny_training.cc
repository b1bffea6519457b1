#include "tiny_training.h"

#include <algorithm>
#include <numeric>

#include "phalanx/model/batch_binding.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"

namespace phalanx {
namespace {

constexpr std::int64_t kArenaBytes = 16 << 20;
// It must fall out of every result.
constexpr double kLossScale = 16.0;

void set_all(const Tensor& tensor, std::span<const double> values) {
  PHALANX_CHECK(tensor.count() == std::ssize(values), "{} values for {}", values.size(),
                tensor.shape.to_string());
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    ref::store(tensor.data() + i * size_of(tensor.dtype), tensor.dtype,
               values[static_cast<std::size_t>(i)]);
  }
}

std::vector<double> first(std::vector<double> values, std::int64_t count) {
  values.resize(static_cast<std::size_t>(count));
  return values;
}

// By sequence.
std::vector<std::int64_t> rows_of_step(int microbatches, const nn::BatchShapes& shapes) {
  std::vector<std::int64_t> rows;
  for (const nn::BatchShape& shape : shapes.of) rows.push_back(microbatches * shape.rows());
  return rows;
}

Chunk whole_chunk(const TinyRun& run, nn::ParamTable& table) {
  if (!run.is_frozen) return run.model.build_chunk(run.model.whole(), table);
  table.freeze(run.is_frozen);
  Chunk chunk = run.model.build_chunk(run.model.whole(), table);
  chunk.leave_out_frozen(table, false);
  return chunk;
}

}  // namespace

TinyTraining::TinyTraining(const TinyRun& run, Backend& backend)
    : run_(run),
      schema_(run.model.batch_schema()),
      shapes_(batch_shapes(schema_, run.micro_batch, 1)),
      memory_("memory", kArenaBytes),
      saved_("saved", kArenaBytes),
      workspace_("workspace", kArenaBytes),
      context_{.backend = backend, .workspace = workspace_, .queue = {}, .recorder = nullptr},
      chunk_(whole_chunk(run, table_)),
      constants_(table_.constants(), context_, memory_),
      parameters_(StateLayout(table_), memory_, memory_),
      gradients_(parameters_.states(), shared_sums(table_), full_precision(),
                 rows_of_step(run.microbatches, shapes_), memory_),
      optimizer_(parameters_, gradients_, run.optimizer, {}, memory_, memory_),
      executor_(no_pipelining(run.microbatches),
                {{&chunk_, parameters_.weights(), gradients_.gradients()}}, shapes_) {
  std::vector<Tensor> columns;
  for (const BatchColumn& column : schema_.columns()) {
    std::vector<std::int64_t> extents(column.extents.begin(), column.extents.end());
    extents.push_back(run.micro_batch);
    columns.push_back(memory_.allocate(
        column.dtype == DType::kF32 ? full_precision() : column.dtype, Shape(extents)));
  }
  batch_ = bind_batch(schema_, std::move(columns));
  terms_.resize(run.model.losses().size());
  for (nn::LossTerm& term : terms_) {
    term.sum = memory_.allocate(DType::kF64, {1});
    term.count = memory_.allocate(DType::kF64, {1});
  }
  for (std::size_t i = 0; i < run.model.auxiliary_losses().size(); ++i) {
    auxiliary_.push_back(
        {.sum = memory_.allocate(DType::kF64, {1}), .factor = 1.0 / run.microbatches});
  }
  loss_scale_ = memory_.allocate(full_precision(), {1});
}

void TinyTraining::initialise() {
  parameters_.initialise(context_, run_.model.transformer().init_key);
  gradients_.initialise(context_);
  optimizer_.initialise(context_);
  ops::fill(context_, {.x = loss_scale_, .value = kLossScale});
}

void TinyTraining::set_parameter(ParamId id, std::span<const double> values) {
  std::vector<double> padded(values.begin(), values.end());
  const Tensor& parameter = table_.trains(id) ? parameters_.main(id) : parameters_.weight(id);
  padded.resize(static_cast<std::size_t>(parameter.count()));
  set_all(parameter, padded);
  parameters_.round_to_storage(context_);
}

std::vector<TinyTraining::Loss> TinyTraining::step(const Settings& settings,
                                                   std::span<const TinyBatch> batches) {
  settings_ = settings;
  batches_ = batches;
  set_factors();
  for (const nn::LossTerm& term : terms_) {
    ops::fill(context_, {.x = term.sum, .value = 0.0});
    ops::fill(context_, {.x = term.count, .value = 0.0});
  }
  for (const nn::AuxiliaryTerm& term : auxiliary_) {
    ops::fill(context_, {.x = term.sum, .value = 0.0});
  }
  gradients_.clear(context_);
  executor_.run(context_, saved_,
                {.shapes = shapes_,
                 .region = {},
                 .training = true,
                 .loss = {.loss_scale = loss_scale_, .mean_of_microbatch = run_.mean_of_means},
                 .constants = constants_.tensors()},
                *this, hooks_);
  std::vector<Loss> losses;
  for (const nn::LossTerm& term : terms_) {
    losses.push_back({ref::read_scalar(term.sum), ref::read_scalar(term.count)});
  }
  return losses;
}

double TinyTraining::auxiliary_loss(std::size_t number) const {
  return ref::read_scalar(auxiliary_.at(number).sum) / run_.microbatches;
}

// With one loss a constant, which the step's end makes good; with several their own counts.
void TinyTraining::set_factors() {
  const std::vector<LossSpec> losses = run_.model.losses();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    double count = 0.0;
    for (const TinyBatch& batch : batches_) {
      if (losses[i].mask.empty()) {
        count += static_cast<double>(run_.micro_batch);
      } else {
        const std::vector<double>& mask = batch.at(losses[i].mask);
        count = std::accumulate(mask.begin(), mask.end(), count);
      }
    }
    if (losses.size() == 1) count = rows_that_may_count();
    terms_[i].factor = 1.0 / (run_.mean_of_means ? run_.microbatches : count);
  }
}

double TinyTraining::rows_that_may_count() const {
  const std::size_t mask = schema_.index(run_.model.losses().front().mask);
  return static_cast<double>(run_.microbatches * batch_[mask].count());
}

std::vector<double> TinyTraining::parameter(ParamId id) const {
  return first(ref::read(parameters_.main(id)).values, true_count(table_[id]));
}

std::vector<double> TinyTraining::gradient(ParamId id) const {
  auto values = first(ref::read(gradients_.gradient(id)).values, true_count(table_[id]));
  const double factor =
      is_rescaled() ? rows_that_may_count() / ref::read_scalar(terms_[0].count) : 1.0;
  for (double& value : values) value *= factor / kLossScale;
  return values;
}

std::vector<double> TinyTraining::padding(ParamId id) const {
  std::vector<double> result;
  const Segment& segment = parameters_.states().segments()[static_cast<std::size_t>(id)];
  for (const Tensor& tensor :
       {parameters_.main(id), parameters_.weight(id), gradients_.gradient(id),
        optimizer_.state("exp_avg", segment), optimizer_.state("exp_avg_sq", segment)}) {
    const auto values = ref::read(tensor).values;
    result.insert(result.end(), values.begin() + true_count(table_[id]), values.end());
  }
  return result;
}

double TinyTraining::grad_norm() const { return ref::read_scalar(optimizer_.norm()); }

const nn::Batch& TinyTraining::load(int microbatch) {
  const TinyBatch& given = batches_[static_cast<std::size_t>(microbatch)];
  const std::int64_t first_sample =
      ((settings_.adam_step - 1) * run_.microbatches + microbatch) * run_.micro_batch;
  for (std::size_t i = 0; i < schema_.columns().size(); ++i) {
    const BatchColumn& column = schema_.columns()[i];
    const auto found = given.find(column.name);
    set_all(batch_[i],
            found != given.end() ? found->second : default_column(column.name, i, first_sample));
  }
  return batch_;
}

// Of the coordinates and position ids, by the row.
std::vector<double> TinyTraining::default_column(std::string_view name, std::size_t index,
                                                 std::int64_t first_sample) const {
  std::vector<double> values;
  for (std::int64_t i = 0; i < batch_[index].count(); ++i) {
    std::int64_t value = 0;
    if (name.ends_with("sample")) value = first_sample + i % run_.micro_batch;
    if (name.ends_with("position") || name.ends_with("position_ids")) value = i / run_.micro_batch;
    values.push_back(static_cast<double>(value));
  }
  return values;
}

const nn::Batch& TinyTraining::loaded(int /*microbatch*/) { return batch_; }

void TinyTraining::reduce_gradients(int /*chunk*/) { gradients_.join_all(context_); }

void TinyTraining::optimizer_step(int /*version*/) {
  StepInputs inputs{.lr = settings_.lr,
                    .weight_decay = settings_.weight_decay,
                    .step = settings_.adam_step,
                    .tokens = {},
                    .loss_scale = loss_scale_};
  if (is_rescaled()) {
    inputs.tokens = terms_[0].count;
    inputs.expected_tokens = rows_that_may_count();
  }
  optimizer_.step(context_, inputs);
}

}  // namespace phalanx
