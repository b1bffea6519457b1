#include "phalanx/train/rank.h"

#include <algorithm>
#include <span>

#include "phalanx/pipeline/schedules/no_pipelining.h"

namespace phalanx {
namespace {

nn::BatchShape batch_shape(const TrainConfig& config, const TensorParallel& layout) {
  return {.sequence = config.seq_length,
          .micro_batch = config.micro_batch_size,
          .sequence_shards = layout.sequence_shards()};
}

// The model as this rank holds it.
GptConfig placed(GptConfig model, const RankCommunicators& ranks) {
  model.transformer.tensor.rank = ranks.at.tensor;
  return model;
}

std::int64_t reduction_bucket_size(const TrainConfig& config) {
  if (config.ddp_bucket_size > 0) return config.ddp_bucket_size;
  return config.overlap_grad_reduce
             ? default_bucket_size(static_cast<int>(data_parallel_size(config)))
             : 0;
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

Rank::Rank(const TrainConfig& config, const GptConfig& any_rank, const RankCommunicators& ranks,
           Backend& backend, RankArenas& arenas)
    : config_(config),
      ranks_(ranks),
      region_(placed(any_rank, ranks).transformer.tensor, ranks.tensor.get()),
      context_{
          .backend = backend, .workspace = arenas.workspace, .stream = {}, .recorder = nullptr},
      arenas_(arenas) {
  const GptConfig model = placed(any_rank, ranks);
  chunks_.push_back(build_gpt_chunk(model, {0, model.transformer.num_layers, true, true}, table_));
  Communicator* data = ranks.data.get();
  const bool is_sharded = config.use_distributed_optimizer && data != nullptr;
  const std::int64_t bucket_size = reduction_bucket_size(config);
  parameters_ = std::make_unique<ParameterStore>(
      table_, arenas.parameters, arenas.main_parameters,
      is_sharded ? OptimizerShard{data->rank(), data->size(), bucket_size} : OptimizerShard{});
  const nn::BatchShape shape = batch_shape(config, region_.layout());
  const DType full = nn::full_precision(model.transformer.dtype);
  const std::int64_t tokens = num_microbatches(config) * shape.rows();
  gradients_ = std::make_unique<GradientStore>(table_, parameters_->layout(), full, tokens,
                                               arenas.gradients);
  data_parallel_ = std::make_unique<DataParallel>(
      *parameters_, *gradients_, gradient_uses(), data, region_,
      DataParallelOptions{.overlap_grad_reduce = config.overlap_grad_reduce,
                          .overlap_param_gather = config.overlap_param_gather,
                          .bucket_size = bucket_size},
      arenas.communication);
  // What lives as long as the run lies at the bottom of the workspace.
  optimizer_ = std::make_unique<AdamOptimizer>(
      *parameters_, *gradients_, adam_settings(config),
      OptimizerGroups{.data = is_sharded ? data : nullptr, .tensor = ranks.tensor.get()},
      arenas.optimizer, arenas.workspace);
  losses_ = arenas.workspace.allocate(DType::kF64, {2});
  sums_ = {.sum = losses_.slice(0, 0, 1), .count = losses_.slice(0, 1, 1)};
  loss_scale_ = arenas.workspace.allocate(full, {1});
  if (ranks.world->size() > 1) agreement_ = arenas.workspace.allocate(DType::kI32, {1});

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

Rank::~Rank() {
  if (std::uncaught_exceptions() > exceptions_at_birth_) {
    ranks_.world->abort("it ended with an exception");
  }
}

std::vector<int> Rank::gradient_uses() const {
  std::vector<int> uses(table_.specs().size(), 0);
  for (const Chunk& chunk : chunks_) {
    for (const auto& unit : chunk.units()) {
      for (const ParamId id : unit->parameters()) ++uses[static_cast<std::size_t>(id)];
    }
  }
  return uses;
}

Rank::BatchSlot Rank::allocate_batch(Arena& arena, const nn::BatchShape& shape, DType full) {
  // The widest first, so that each is aligned.
  const std::array<DType, 7> dtypes = {DType::kI64, full,        DType::kI32, DType::kI32,
                                       DType::kI32, DType::kI32, DType::kI32};
  std::int64_t row_bytes = 0;
  for (const DType dtype : dtypes) row_bytes += size_of(dtype);
  const Tensor bytes = arena.allocate(DType::kU8, {shape.rows() * row_bytes});
  std::int64_t offset = bytes.offset;
  const auto next = [&](DType dtype) {
    const Tensor tensor = dense_tensor(arena, offset, dtype, {shape.sequence, shape.micro_batch});
    offset += tensor.bytes();
    return tensor;
  };
  nn::Batch batch;
  batch.rows.sample = next(DType::kI64);
  batch.loss_mask = next(full);
  batch.tokens = next(DType::kI32);
  batch.position_ids = next(DType::kI32);
  batch.labels = next(DType::kI32);
  batch.rows.position = next(DType::kI32);
  batch.rows.document = next(DType::kI32);
  return {bytes, batch};
}

void Rank::initialise() {
  parameters_->initialise(
      context_,
      random_key(static_cast<std::uint64_t>(config_.seed), RandomPurpose::kInitialisation),
      gradients_->flat());
  initialise_optimizer();
  initialise_gradients();
}

void Rank::initialise_optimizer() { optimizer_->initialise(context_); }

void Rank::initialise_gradients() { gradients_->initialise(context_); }

StepSettings Rank::settings(bool training) const {
  const bool per_microbatch = config_.loss_average == "microbatch";
  const auto tokens = static_cast<double>(config_.global_batch_size * config_.seq_length);
  const auto microbatches =
      static_cast<double>(num_microbatches(config_) * data_parallel_size(config_));
  return {.shape = batch_shape(config_, region_.layout()),
          .region = region_,
          .training = training,
          .loss = {.loss_scale = loss_scale_,
                   .factor = 1.0 / (per_microbatch ? microbatches : tokens),
                   .mean_of_microbatch = per_microbatch},
          .sums = sums_};
}

void Rank::begin(const BatchSource* source) {
  source_ = source;
  ops::fill(context_, {.x = losses_, .value = 0.0});
}

StepResult Rank::train_step(const StepSchedule& schedule, const BatchSource& source) {
  schedule_ = schedule;
  begin(&source);
  ops::fill(context_, {.x = loss_scale_, .value = schedule.loss_scale});
  gradients_->clear(context_);
  data_parallel_->begin(context_, training_->program().microbatches - 1);
  training_->run(context_, arenas_.saved, settings(true), *this, *data_parallel_);
  StepResult result = read_loss();
  result.grad_norm = read_scalar(context_, optimizer_->norm());
  result.skipped = read_scalar(context_, optimizer_->skip()) != 0.0;
  if (config_.log_num_zeros_in_grad) {
    result.zeros_in_grad = read_scalar(context_, optimizer_->zeros()) - padding_elements();
  }
  return result;
}

StepResult Rank::evaluate(const BatchSource& source) {
  begin(&source);
  data_parallel_->begin(context_, -1);
  evaluation_->run(context_, arenas_.saved, settings(false), *this, *data_parallel_);
  sum_losses();
  return read_loss();
}

// The padding of vocabulary-sized parameters has zero gradients that are nobody's.
double Rank::padding_elements() const {
  std::int64_t count = 0;
  for (const ParamSpec& spec : table_.specs()) {
    const auto parts = spec.tensor_parallel ? region_.layout().size : 1;
    count += parts * spec.local_shape.count() - spec.global_shape.count();
  }
  return static_cast<double>(count);
}

int Rank::largest_of_all(int value) {
  if (!agreement_) return value;
  upload(context_, agreement_, std::vector<std::int32_t>{value});
  ranks_.world->all_reduce(context_, agreement_, Reduction::kMax).wait(context_.stream);
  std::int32_t largest = 0;
  context_.backend.read_back(context_.stream, agreement_,
                             std::as_writable_bytes(std::span(&largest, 1)));
  return largest;
}

void Rank::sum_losses() {
  if (!ranks_.data) return;
  ranks_.data->all_reduce(context_, losses_, Reduction::kSum).wait(context_.stream);
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
  data_parallel_->begin(context_, training_->program().microbatches - 1);
  auto step = training_->rehearse(context_, arenas_.saved, settings(true), *this, *data_parallel_);
  data_parallel_->begin(context_, -1);
  evaluation_->rehearse(context_, arenas_.saved, settings(false), *this, *data_parallel_);
  context_.recorder = nullptr;
  return {.flops_per_step = step.flops,
          .messages = std::move(step.messages),
          .saved_per_microbatch = training_->saved_plan().bytes_per_microbatch(0),
          .microbatches_in_flight = training_->saved_plan().microbatches_in_flight(0)};
}

Rank::BatchSlot& Rank::slot(int microbatch) {
  return batches_[static_cast<std::size_t>(microbatch) % batches_.size()];
}

const nn::Batch& Rank::load(int microbatch) {
  auto& [bytes, batch] = slot(microbatch);
  const bool reads = !ranks_.tensor || ranks_.tensor->rank() == 0;
  if (source_ != nullptr && reads) {
    const GptBatch& host = (*source_)(microbatch);
    upload(context_, batch.tokens, host.tokens);
    upload(context_, batch.position_ids, host.position_ids);
    upload(context_, batch.labels, host.labels);
    upload(context_, batch.loss_mask, host.loss_mask);
    upload(context_, batch.rows.sample, host.sample);
    upload(context_, batch.rows.position, host.position);
    upload(context_, batch.rows.document, host.document);
  }
  if (ranks_.tensor) ranks_.tensor->broadcast(context_, bytes, 0).wait(context_.stream);
  return batch;
}

const nn::Batch& Rank::loaded(int microbatch) { return slot(microbatch).batch; }

void Rank::reduce_gradients(int /*chunk*/) { data_parallel_->reduce(); }

void Rank::optimizer_step() {
  sum_losses();
  const bool per_microbatch = config_.loss_average == "microbatch";
  optimizer_->step(context_, {.lr = schedule_.lr,
                              .weight_decay = schedule_.weight_decay,
                              .step = schedule_.adam_step,
                              .tokens = per_microbatch ? Tensor{} : sums_.count,
                              .expected_tokens = static_cast<double>(config_.global_batch_size *
                                                                     config_.seq_length),
                              .loss_scale = loss_scale_});
  data_parallel_->gather();
}

}  // namespace phalanx
