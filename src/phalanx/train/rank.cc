#include "phalanx/train/rank.h"

#include <algorithm>
#include <span>

#include "phalanx/pipeline/schedules/no_pipelining.h"

namespace phalanx {
namespace {

nn::BatchShape batch_shape(const TrainConfig& config) {
  return {.sequence = config.seq_length, .micro_batch = config.micro_batch_size};
}

nn::Batch allocate_batch(Arena& arena, const nn::BatchShape& shape, DType full) {
  const Shape extents{shape.sequence, shape.micro_batch};
  return {.tokens = arena.allocate(DType::kI32, extents),
          .position_ids = arena.allocate(DType::kI32, extents),
          .labels = arena.allocate(DType::kI32, extents),
          .loss_mask = arena.allocate(full, extents),
          .rows = {.sample = arena.allocate(DType::kI64, extents),
                   .position = arena.allocate(DType::kI32, extents),
                   .document = arena.allocate(DType::kI32, extents)}};
}

template <typename T>
void upload(Context& context, const Tensor& destination, const std::vector<T>& source) {
  context.backend.upload(context.stream, destination, std::as_bytes(std::span(source)));
}

double read_scalar(Context& context, const Tensor& scalar) {
  if (scalar.dtype == DType::kF64) {
    double value = 0.0;
    context.backend.read_back(context.stream, scalar, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  float value = 0.0F;
  context.backend.read_back(context.stream, scalar, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace

RankArenas RankArenas::planning() {
  return {.parameters = Arena::planning("parameters"),
          .main_parameters = Arena::planning("main parameters"),
          .gradients = Arena::planning("gradients"),
          .optimizer = Arena::planning("optimizer"),
          .saved = Arena::planning("saved"),
          .workspace = Arena::planning("workspace"),
          .communication = Arena::planning("communication")};
}

std::vector<const Arena*> RankArenas::all() const {
  return {&parameters, &main_parameters, &gradients,    &optimizer,
          &saved,      &workspace,       &communication};
}

std::vector<std::int64_t> RankArenas::high_water() const {
  std::vector<std::int64_t> marks;
  for (const Arena* arena : all()) marks.push_back(arena->high_water());
  return marks;
}

Rank::Rank(const TrainConfig& config, const GptConfig& model, Backend& backend, RankArenas& arenas)
    : config_(config),
      context_{
          .backend = backend, .workspace = arenas.workspace, .stream = {}, .recorder = nullptr},
      arenas_(arenas) {
  chunks_.push_back(build_gpt_chunk(model, {0, model.transformer.num_layers, true, true}, table_));
  parameters_ = std::make_unique<ParameterStore>(table_, arenas.parameters, arenas.main_parameters);
  const nn::BatchShape shape = batch_shape(config);
  const DType full = nn::full_precision(model.transformer.dtype);
  gradients_ = std::make_unique<GradientStore>(table_, parameters_->layout(), full,
                                               config.global_batch_size * config.seq_length,
                                               arenas.gradients);
  // What lives as long as the run lies at the bottom of the workspace.
  optimizer_ = std::make_unique<AdamOptimizer>(*parameters_, *gradients_, adam_settings(config),
                                               arenas.optimizer, arenas.workspace);
  sums_ = {.sum = arenas.workspace.allocate(DType::kF64, {1}),
           .count = arenas.workspace.allocate(DType::kF64, {1})};
  loss_scale_ = arenas.workspace.allocate(full, {1});

  const auto microbatches = static_cast<int>(num_microbatches(config));
  const std::vector<ChunkTables> tables = {
      {&chunks_[0], parameters_->weights(), gradients_->gradients()}};
  training_ = std::make_unique<Executor>(no_pipelining(microbatches), tables, shape);
  evaluation_ = std::make_unique<Executor>(forward_only(microbatches), tables, shape);
  const int in_flight = std::max(training_->saved_plan().microbatches_in_flight(0),
                                 evaluation_->saved_plan().microbatches_in_flight(0));
  for (int i = 0; i < in_flight; ++i) {
    batches_.push_back(allocate_batch(arenas.workspace, shape, full));
  }
}

void Rank::initialise() {
  parameters_->initialise(context_, random_key(static_cast<std::uint64_t>(config_.seed),
                                               RandomPurpose::kInitialisation));
  initialise_optimizer();
  initialise_gradients();
}

void Rank::initialise_optimizer() { optimizer_->initialise(context_); }

void Rank::initialise_gradients() {
  gradients_->initialise(context_);
  ops::fill(context_, {.x = loss_scale_, .value = 1.0});
}

StepSettings Rank::settings(bool training) const {
  const bool per_microbatch = config_.loss_average == "microbatch";
  const auto tokens = static_cast<double>(config_.global_batch_size * config_.seq_length);
  const auto microbatches = static_cast<double>(num_microbatches(config_));
  return {.shape = batch_shape(config_),
          .training = training,
          .loss = {.loss_scale = loss_scale_,
                   .factor = 1.0 / (per_microbatch ? microbatches : tokens),
                   .mean_of_microbatch = per_microbatch},
          .sums = sums_};
}

void Rank::begin(const BatchSource* source) {
  source_ = source;
  ops::fill(context_, {.x = sums_.sum, .value = 0.0});
  ops::fill(context_, {.x = sums_.count, .value = 0.0});
}

StepResult Rank::train_step(const StepSchedule& schedule, const BatchSource& source) {
  schedule_ = schedule;
  begin(&source);
  gradients_->clear(context_);
  training_->run(context_, arenas_.saved, settings(true), *this, hooks_);
  StepResult result = read_loss();
  result.grad_norm = read_scalar(context_, optimizer_->norm());
  result.skipped = read_scalar(context_, optimizer_->skip()) != 0.0;
  return result;
}

StepResult Rank::evaluate(const BatchSource& source) {
  begin(&source);
  evaluation_->run(context_, arenas_.saved, settings(false), *this, hooks_);
  return read_loss();
}

StepResult Rank::read_loss() {
  const double sum = read_scalar(context_, sums_.sum);
  const double tokens = read_scalar(context_, sums_.count);
  return {.loss = tokens > 0.0 ? sum / tokens : 0.0, .tokens = tokens};
}

Rank::Rehearsal Rank::rehearse() {
  Recorder recorder;
  context_.recorder = &recorder;
  initialise();
  begin(nullptr);
  gradients_->clear(context_);
  recorder.clear();
  const auto flops = training_->rehearse(context_, arenas_.saved, settings(true), *this, hooks_);
  evaluation_->rehearse(context_, arenas_.saved, settings(false), *this, hooks_);
  context_.recorder = nullptr;
  return {.flops_per_step = flops,
          .saved_per_microbatch = training_->saved_plan().bytes_per_microbatch(0),
          .microbatches_in_flight = training_->saved_plan().microbatches_in_flight(0)};
}

nn::Batch& Rank::slot(int microbatch) {
  return batches_[static_cast<std::size_t>(microbatch) % batches_.size()];
}

const nn::Batch& Rank::load(int microbatch) {
  nn::Batch& batch = slot(microbatch);
  if (source_ == nullptr) return batch;
  const GptBatch& host = (*source_)(microbatch);
  upload(context_, batch.tokens, host.tokens);
  upload(context_, batch.position_ids, host.position_ids);
  upload(context_, batch.labels, host.labels);
  upload(context_, batch.loss_mask, host.loss_mask);
  upload(context_, batch.rows.sample, host.sample);
  upload(context_, batch.rows.position, host.position);
  upload(context_, batch.rows.document, host.document);
  return batch;
}

const nn::Batch& Rank::loaded(int microbatch) { return slot(microbatch); }

void Rank::reduce_gradients(int /*chunk*/) { gradients_->join_tied_embedding(context_); }

void Rank::optimizer_step() {
  const bool per_microbatch = config_.loss_average == "microbatch";
  optimizer_->step(context_, {.lr = schedule_.lr,
                              .weight_decay = schedule_.weight_decay,
                              .step = schedule_.adam_step,
                              .tokens = per_microbatch ? Tensor{} : sums_.count,
                              .expected_tokens = static_cast<double>(config_.global_batch_size *
                                                                     config_.seq_length),
                              .loss_scale = loss_scale_});
}

}  // namespace phalanx
