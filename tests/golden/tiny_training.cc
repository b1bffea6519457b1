#include "tiny_training.h"

#include "phalanx/ops/ref/access.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"

namespace phalanx {
namespace {

constexpr std::int64_t kArenaBytes = 16 << 20;
// It must fall out of every result.
constexpr double kLossScale = 16.0;

template <typename T>
void set_all(const Tensor& tensor, const std::vector<T>& values) {
  PHALANX_CHECK(tensor.count() == static_cast<std::int64_t>(values.size()), "{} values for {}",
                values.size(), tensor.shape.to_string());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ref::store(tensor.data() + static_cast<std::int64_t>(i) * size_of(tensor.dtype), tensor.dtype,
               static_cast<double>(values[i]));
  }
}

std::vector<double> first(std::vector<double> values, std::int64_t count) {
  values.resize(static_cast<std::size_t>(count));
  return values;
}

}  // namespace

TinyTraining::TinyTraining(const TinyRun& run, Backend& backend)
    : run_(run),
      memory_("memory", kArenaBytes),
      saved_("saved", kArenaBytes),
      workspace_("workspace", kArenaBytes),
      context_{.backend = backend, .workspace = workspace_, .stream = {}, .recorder = nullptr},
      chunk_(build_gpt_chunk(run.model, {0, run.model.transformer.num_layers, true, true}, table_)),
      parameters_(table_, memory_, memory_),
      gradients_(table_, parameters_.layout(), nn::full_precision(run.model.transformer.dtype),
                 run.microbatches * run.shape.rows(), memory_),
      optimizer_(parameters_, gradients_, run.optimizer, {}, memory_, memory_),
      executor_(no_pipelining(run.microbatches),
                {{&chunk_, parameters_.weights(), gradients_.gradients()}}, run.shape) {
  const Shape extents{run.shape.sequence, run.shape.micro_batch};
  const DType full = nn::full_precision(run.model.transformer.dtype);
  batch_ = {.tokens = memory_.allocate(DType::kI32, extents),
            .position_ids = memory_.allocate(DType::kI32, extents),
            .labels = memory_.allocate(DType::kI32, extents),
            .loss_mask = memory_.allocate(full, extents),
            .rows = {.sample = memory_.allocate(DType::kI64, extents),
                     .position = memory_.allocate(DType::kI32, extents),
                     .document = memory_.allocate(DType::kI32, extents)}};
  sums_ = {.sum = memory_.allocate(DType::kF64, {1}), .count = memory_.allocate(DType::kF64, {1})};
  loss_scale_ = memory_.allocate(full, {1});
}

void TinyTraining::initialise() {
  parameters_.initialise(context_, run_.model.transformer.init_key, gradients_.flat());
  gradients_.initialise(context_);
  optimizer_.initialise(context_);
  ops::fill(context_, {.x = loss_scale_, .value = kLossScale});
}

void TinyTraining::set_parameter(ParamId id, std::span<const double> values) {
  std::vector<double> padded(values.begin(), values.end());
  padded.resize(static_cast<std::size_t>(parameters_.main(id).count()));
  set_all(parameters_.main(id), padded);
  parameters_.round_to_storage(context_);
}

double TinyTraining::step(const Settings& settings, std::span<const TinyBatch> batches) {
  settings_ = settings;
  batches_ = batches;
  ops::fill(context_, {.x = sums_.sum, .value = 0.0});
  ops::fill(context_, {.x = sums_.count, .value = 0.0});
  gradients_.clear(context_);
  const double rows = static_cast<double>(run_.microbatches * run_.shape.rows());
  executor_.run(context_, saved_,
                {.shape = run_.shape,
                 .region = {},
                 .training = true,
                 .loss = {.loss_scale = loss_scale_, .factor = 1.0 / rows}},
                *this, hooks_);
  return ref::read_scalar(sums_.sum) / ref::read_scalar(sums_.count);
}

std::vector<double> TinyTraining::parameter(ParamId id) const {
  return first(ref::read(parameters_.main(id)).values, true_count(table_[id]));
}

std::vector<double> TinyTraining::gradient(ParamId id) const {
  auto values = first(ref::read(gradients_.gradient(id)).values, true_count(table_[id]));
  const double rows = static_cast<double>(run_.microbatches * run_.shape.rows());
  for (double& value : values) value *= rows / ref::read_scalar(sums_.count) / kLossScale;
  return values;
}

std::vector<double> TinyTraining::padding(ParamId id) const {
  std::vector<double> result;
  const Segment& segment = parameters_.segments()[static_cast<std::size_t>(id)];
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
  const TinyBatch& host = batches_[static_cast<std::size_t>(microbatch)];
  set_all(batch_.tokens, host.tokens);
  set_all(batch_.position_ids, host.positions);
  set_all(batch_.labels, host.labels);
  set_all(batch_.loss_mask, host.loss_mask);
  set_all(batch_.rows.document, host.documents);
  std::vector<double> samples, positions;
  for (std::int64_t i = 0; i < run_.shape.rows(); ++i) {
    const std::int64_t first_sample =
        ((settings_.adam_step - 1) * run_.microbatches + microbatch) * run_.shape.micro_batch;
    samples.push_back(static_cast<double>(first_sample + i % run_.shape.micro_batch));
    const std::int64_t position = i / run_.shape.micro_batch;
    positions.push_back(static_cast<double>(position));
  }
  set_all(batch_.rows.sample, samples);
  set_all(batch_.rows.position, positions);
  return batch_;
}

const nn::Batch& TinyTraining::loaded(int /*microbatch*/) { return batch_; }

void TinyTraining::reduce_gradients(int /*chunk*/) { gradients_.join_tied_embedding(context_); }

void TinyTraining::optimizer_step(int /*version*/) {
  optimizer_.step(context_,
                  {.lr = settings_.lr,
                   .weight_decay = settings_.weight_decay,
                   .step = settings_.adam_step,
                   .tokens = sums_.count,
                   .expected_tokens = static_cast<double>(run_.microbatches * run_.shape.rows()),
                   .loss_scale = loss_scale_});
}

}  // namespace phalanx
