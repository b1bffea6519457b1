#include "phalanx/rank/rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// How far back the passes of a rank's list read weights, the newest version included.
int weight_versions_back(const std::vector<Action>& actions) {
  int newest = 0;
  int most = 1;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kOptimizerStep) newest = action.version;
    if (is_pass(action.kind)) most = std::max(most, newest - action.version + 1);
  }
  return most;
}

// Versions of the weights that a rank of the pipeline reads at once.
int weight_versions(const StepPrograms& programs, int pipeline_rank) {
  int versions = 1;
  for (const auto& [size, pipeline] : programs.training) {
    const auto& actions = pipeline.schedule.ranks[static_cast<std::size_t>(pipeline_rank)];
    versions = std::max(versions, weight_versions_back(actions));
  }
  return versions;
}

// At most, by sequence.
std::vector<std::int64_t> tokens_per_step(const StepPrograms& programs,
                                          const nn::BatchShapes& shapes) {
  int most_microbatches = 1;
  for (const auto& [size, pipeline] : programs.training) {
    most_microbatches = std::max(most_microbatches, size.microbatches);
  }
  return {most_microbatches * shapes.of[0].rows(), most_microbatches * shapes.of[1].rows()};
}

// Counts behind every unit's forward pass.
class PassCounts final : public nn::UnitHooks {
 public:
  PassCounts(const EvaluationScores* scores, Context& context, std::span<double> counts)
      : scores_(scores), counts_(counts), read_([&context](const Tensor& tensor, auto bytes) {
          context.backend.read_back(context.queue, tensor, bytes);
        }) {}

  void after(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/,
             const nn::UnitTensors& tensors) override {
    if (pass == nn::PassKind::kForward) scores_->count(unit, tensors, read_, counts_);
  }

 private:
  const EvaluationScores* scores_;
  std::span<double> counts_;
  EvaluationScores::ReadBack read_;
};

}  // namespace

Rank::Rank(const TrainConfig& config, const Model& any_rank, const StepPrograms& programs,
           const RankCommunicators& ranks, Backend& backend, RankArenas& arenas, Shared* shared)
    : config_(config),
      ranks_(ranks),
      usual_(programs.usual),
      region_(any_rank.placed(ranks.at.tensor)->transformer().tensor, ranks.tensor.get()),
      context_{
          .backend = backend, .workspace = arenas["workspace"], .queue = {}, .recorder = nullptr},
      arenas_(arenas),
      family_model_(any_rank.placed(ranks.at.tensor)),
      shapes_(batch_shapes(family_model_->batch_schema(), config.layout.micro_batch_size,
                           region_.layout().sequence_shards())),
      states_(config_, *family_model_, programs, ranks, tokens_per_step(programs, shapes_),
              context_, arenas, shared != nullptr ? &shared->models : nullptr) {
  const BatchSchema schema = family_model_->batch_schema();
  make_programs(programs, shared != nullptr ? &shared->saved : nullptr);
  for (const auto& [size, program] : training_) {
    most_updates_ = std::max<std::int64_t>(
        most_updates_, size.iterations * updates_per_iteration(config.layout, size.microbatches));
  }
  const std::vector<LossSpec> losses = family_model_->losses();
  terms_.resize(losses.size());
  losses_ = arenas["workspace"].allocate(
      DType::kF64, {2 * most_updates_ * static_cast<std::int64_t>(terms_.size())});
  if (averages_microbatches()) {
    microbatch_losses_ =
        arenas["workspace"].allocate(DType::kF64, {std::ssize(losses), 2, most_microbatches()});
  }
  if (wants_loss_counts()) {
    global_counts_ = arenas["workspace"].allocate(DType::kF64, {std::ssize(losses)});
  }
  scores_ = family_of(config_).evaluation_scores(config_);
  if (scores_ != nullptr) {
    host_counts_.resize(static_cast<std::size_t>(scores_->counts()));
    evaluation_counts_ = arenas["workspace"].allocate(DType::kF64, {scores_->counts()});
  }
  if (losses.size() == 1) {
    loss_mask_ = schema.index(losses.front().mask);
    counted_per_sample_ = schema.columns()[loss_mask_].extents[0];
  }
  if (is_asynchronous(config.layout)) {
    asynchronous_ = std::make_unique<AsynchronousUpdates>(
        states_.parameters(), weight_versions(programs, ranks.at.pipeline), ranks,
        arenas["parameters"], arenas["workspace"]);
  }
  loss_scale_ = arenas["workspace"].allocate(nn::full_precision(any_rank.transformer().dtype), {1});
  if (ranks.world->size() > 1) {
    const auto pipeline = static_cast<int>(config.layout.pipeline_model_parallel_size);
    agreement_ = arenas["workspace"].allocate(DType::kI32, {StopAgreement::delay(pipeline)});
  }
  stop_ = std::make_unique<StopAgreement>(*ranks.world, agreement_);
  batches_ =
      BatchMemory(schema, config.layout.micro_batch_size, batch_slots(), arenas["workspace"]);
}

void Rank::make_programs(const StepPrograms& programs, SavedPlans* plans) {
  const std::vector<ChunkTables> tables = states_.tables();
  const auto at = static_cast<std::size_t>(ranks_.at.pipeline);
  if (Storage* storage = states_.activation_storage()) {
    saved_files_ = std::make_unique<SavedFiles>(*storage);
  }
  const auto executor = [&](const PipelinePrograms& pipeline) {
    return std::make_unique<Executor>(pipeline.ranks[at], tables, shapes_, ranks_.pipeline.get(),
                                      plans, saved_files_.get());
  };
  for (const auto& [size, pipeline] : programs.training) {
    training_.emplace(size, TrainingProgram{.executor = executor(pipeline),
                                            .microbatches_per_update =
                                                pipeline.schedule.microbatches_per_update});
  }
  evaluation_ = executor(programs.evaluation);
  if (saved_files_) saved_files_->open();
}

int Rank::most_microbatches() const {
  int most = evaluation_->program().microbatches;
  for (const auto& [size, program] : training_) {
    most = std::max(most, program.executor->program().microbatches);
  }
  return most;
}

int Rank::batch_slots() const {
  int needed = evaluation_->batch_slots().count();
  for (const auto& [size, program] : training_) {
    needed = std::max(needed, program.executor->batch_slots().count());
  }
  return needed;
}

Rank::~Rank() {
  if (std::uncaught_exceptions() > exceptions_at_birth_) {
    ranks_.world->abort("it ended with an exception");
  }
}

void Rank::initialise() {
  states_.draw_weights(context_);
  initialise_optimizer();
  initialise_gradients();
}

void Rank::initialise_optimizer() { states_.optimizer().initialise(context_); }

void Rank::initialise_gradients() { states_.gradients().initialise(context_); }

std::int64_t Rank::updates_of_iteration() const {
  return running_->program().microbatches / (microbatches_per_update_ * std::ssize(iterations_));
}

StepSettings Rank::settings(bool training) const {
  return {.shapes = shapes_,
          .region = region_,
          .training = training,
          .loss = {.loss_scale = loss_scale_, .mean_of_microbatch = averages_microbatches()},
          .constants = states_.constants()};
}

double Rank::microbatches_of_update() const {
  return static_cast<double>(microbatches_per_update_ * data_parallel_size(config_.layout));
}

double Rank::tokens_per_update() const {
  return microbatches_of_update() *
         static_cast<double>(config_.layout.micro_batch_size * counted_per_sample_);
}

void Rank::begin(const BatchSource* source, const TrainingProgram* training) {
  source_ = source;
  running_ = training != nullptr ? training->executor.get() : evaluation_.get();
  // An evaluation is one sum.
  microbatches_per_update_ =
      training != nullptr ? training->microbatches_per_update : running_->program().microbatches;
  overflowed_ = false;
  ops::fill(context_, {.x = losses_, .value = 0.0});
  if (microbatch_losses_) ops::fill(context_, {.x = microbatch_losses_, .value = 0.0});
}

void Rank::begin_update(int update) {
  states_.gradients().begin_update();
  states_.begin_passes(context_, (update + 1) * microbatches_per_update_ - 1);
}

std::vector<StepResult> Rank::train(std::span<const StepSchedule> iterations,
                                    const BatchSource& source, PassObserver* observer,
                                    nn::UnitHooks* others) {
  const std::int64_t microbatches = iterations.front().microbatches > 0
                                        ? iterations.front().microbatches
                                        : num_microbatches(config_.layout);
  const auto found =
      training_.find({static_cast<int>(iterations.size()), static_cast<int>(microbatches)});
  PHALANX_CHECK(found != training_.end(), "no program of {} iterations of {} microbatches",
                iterations.size(), microbatches);
  const TrainingProgram& program = found->second;
  iterations_ = iterations;
  begin(&source, &program);
  ops::fill(context_, {.x = loss_scale_, .value = iterations.front().loss_scale});
  if (asynchronous_) asynchronous_->begin();
  if (wants_loss_counts()) sum_loss_counts(iterations.front().loss_counts);
  begin_update(0);
  run_training(*program.executor, observer, others);
  if (asynchronous_) {
    if (averages_microbatches()) average_microbatches();
    for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
      sum_over_data_and_stages(loss_parts(loss, LossPart::kSum));
    }
  }
  const std::int64_t updates = updates_of_iteration();
  std::vector<StepResult> results;
  for (std::size_t i = 0; i < iterations.size(); ++i) {
    StepResult result = read_losses(static_cast<std::int64_t>(i) * updates, updates);
    result.skipped = overflowed_;
    result.grad_norm = asynchronous_ ? std::numeric_limits<double>::quiet_NaN()
                                     : read_scalar(states_.optimizer().norm());
    if (config_.optimizer.log_num_zeros_in_grad) {
      // The gradients of the padding are zeros that nobody wants to know of.
      result.zeros_in_grad =
          read_scalar(states_.optimizer().zeros()) -
          static_cast<double>(counted_padding(whole_table(), region_.layout().size));
    }
    results.push_back(result);
  }
  if (config_.optimizer.log_params_norm) results.back().parameters_norm = parameters_norm();
  return results;
}

double Rank::parameters_norm() {
  const Tensor& squares = states_.optimizer().parameter_squares(context_);
  // An asynchronous schedule's optimizer knows its stage alone; now no stage updates.
  if (asynchronous_) sum_over(context_, ranks_.pipeline.get(), squares);
  const WorkspaceScope scope(context_.workspace);
  const Tensor sum = context_.workspace.allocate(DType::kF64, {1});
  ops::total(context_, {.sum = sum, .x = squares});
  return std::sqrt(read_scalar(sum));
}

void Rank::time_with(StepTimers* timers) {
  timers_ = timers;
  states_.time_with(timers);
}

// What is neither the optimizer's nor its gathers' is Megatron's forward-backward.
void Rank::run_training(Executor& executor, PassObserver* observer, nn::UnitHooks* hooks_behind) {
  nn::HooksInTurn hooks = states_.hooks({saved_files_.get(), hooks_behind});
  const auto now = StepTimers::Clock::now;
  const auto elsewhere = [this] {
    return timers_ == nullptr ? StepTimers::Clock::duration()
                              : timers_->elapsed(StepTimer::kOptimizer) +
                                    timers_->elapsed(StepTimer::kGatherParameters);
  };
  const auto begin = now() - elsewhere();
  executor.run(context_, arenas_["saved"], settings(true), *this, hooks, observer);
  if (timers_ != nullptr) {
    timers_->add(StepTimer::kForwardBackward, now() - begin - elsewhere());
  }
}

StepResult Rank::evaluate(const BatchSource& source) {
  forward_only(source);
  return evaluated();
}

StepResult Rank::evaluated() {
  sum_losses();
  StepResult result = read_losses(0, 1);
  if (scores_ != nullptr) {
    sum_evaluation_counts();
    result.counts = host_counts_;
  }
  return result;
}

std::optional<StepResult> Rank::evaluate_unless(const std::function<bool()>& stop,
                                                const BatchSource& source) {
  stop_->begin(&stop);
  forward_only(source);
  if (stop_->end(context_)) return std::nullopt;
  return evaluated();
}

void Rank::forward_only(const BatchSource& source) {
  // As in Megatron, evaluations are no part of a step's times.
  StepTimers* const timers = std::exchange(timers_, nullptr);
  const TimerScope time(timers, StepTimer::kEvaluation);
  begin(&source, nullptr);
  states_.begin_passes(context_, -1);
  std::ranges::fill(host_counts_, 0.0);
  PassCounts counting(scores_.get(), context_, host_counts_);
  nn::HooksInTurn hooks =
      states_.hooks({saved_files_.get(), scores_ != nullptr ? &counting : nullptr});
  evaluation_->run(context_, arenas_["saved"], settings(false), *this, hooks);
  timers_ = timers;
}

bool Rank::is_given_up(int microbatch) { return stop_->is_given_up(context_, microbatch); }

int Rank::largest_of_all(int value) {
  if (!agreement_) return value;
  const Tensor slot = agreement_.slice(0, 0, 1);
  const std::int32_t mine = value;
  context_.backend.upload(context_.queue, slot, std::as_bytes(std::span(&mine, 1)));
  ranks_.world->all_reduce(context_, slot, Reduction::kMax).wait(context_.queue);
  std::int32_t largest = 0;
  context_.backend.read_back(context_.queue, slot, std::as_writable_bytes(std::span(&largest, 1)));
  return largest;
}

const nn::Batch& Rank::load(int microbatch) {
  const int slot = running_->batch_slots().slot(microbatch);
  const bool reads = !ranks_.tensor || ranks_.tensor->rank() == 0;
  if (source_ != nullptr && reads) read_batch(microbatch, slot);
  if (ranks_.tensor) batches_.broadcast(context_, slot, *ranks_.tensor);
  const nn::Batch& batch = batches_[slot];
  // A stage that updates for itself must know by how many tokens to divide.
  const bool divides = !running_->program().forward_only && !averages_microbatches();
  if (asynchronous_ && divides && !states_.model().has_head) {
    asynchronous_->count(context_, batch[loss_mask_], losses(microbatch)[0].count);
  }
  return batch;
}

void Rank::read_batch(int microbatch, int slot) {
  const HostBatch* host = nullptr;
  {
    const TimerScope time(timers_, StepTimer::kData);
    host = &(*source_)(microbatch);
  }
  batches_.upload(context_, slot, *host);
}

const nn::Batch& Rank::loaded(int microbatch) {
  return batches_[running_->batch_slots().slot(microbatch)];
}

nn::Weights Rank::stale_weights(int version) { return asynchronous_->weights(version); }

void Rank::reduce_gradients(int chunk) { states_.data_parallel().reduce(chunk); }

void Rank::optimizer_step(int version) {
  states_.data_parallel().finish_reduction();
  const std::int64_t update = version - 1;
  const std::int64_t updates = updates_of_iteration();
  const auto iteration = static_cast<std::size_t>(update / updates);
  const StepSchedule& schedule = iterations_[iteration];
  const bool divides = !averages_microbatches() && terms_.size() == 1;
  const Tensor tokens = divides ? loss_part(0, LossPart::kCount, update) : Tensor{};
  if (asynchronous_) {
    asynchronous_->before_update(context_, tokens);
  } else {
    sum_losses();
  }
  refuse_loss(update);
  if (observer_ != nullptr) observer_->update_begins();
  states_.optimizer().step(context_, {.lr = schedule.lr,
                                      .decoupled_lr = schedule.decoupled_lr,
                                      .weight_decay = schedule.weight_decay,
                                      .step = schedule.adam_step + update % updates,
                                      .tokens = tokens,
                                      .expected_tokens = tokens_per_update(),
                                      .loss_scale = loss_scale_});
  overflowed_ = overflowed_ || read_scalar(states_.optimizer().skip()) != 0.0;
  if (observer_ != nullptr) observer_->update_ends();
  const bool is_last = version == running_->program().microbatches / microbatches_per_update_;
  if (!is_last) begin_update(version);
}

void Rank::gather_parameters() { states_.data_parallel().gather(); }

}  // namespace phalanx
