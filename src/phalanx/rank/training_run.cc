#include <cmath>
#include <limits>

#include "phalanx/ops/reduce.h"
#include "phalanx/rank/step_run.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

TrainingRun::TrainingRun(Rank& rank, const RankProgram& program,
                         std::span<const StepSchedule> iterations, const BatchSource* source,
                         StateObserver* observer)
    : StepRun(rank, program, source), iterations_(iterations), observer_(observer) {
  write_scalar(context(), rank.losses().scale, iterations.front().loss_scale);
  if (AsynchronousUpdates* asynchronous = rank.asynchronous()) asynchronous->begin();
  begin_update(0);
  if (observer != nullptr) rank.states().observe_with(observer);
}

TrainingRun::~TrainingRun() {
  if (observer_ != nullptr) rank_.states().observe_with(nullptr);
}

void TrainingRun::begin_update(int update) const {
  rank_.states().gradients().begin_update();
  rank_.states().begin_passes(context(), (update + 1) * program_.microbatches_per_update - 1);
}

// Megatron's forward-backward time is all but the time of the optimizer and its gathers.
void TrainingRun::run(PassObserver* observer, nn::UnitHooks* last_hooks) {
  nn::HooksInTurn hooks = rank_.states().hooks({rank_.programs().saved_files(), last_hooks});
  const auto now = StepTimers::Clock::now;
  const auto elsewhere = [this] {
    return timers() == nullptr ? StepTimers::Clock::duration()
                               : timers()->elapsed(StepTimer::kOptimizer) +
                                     timers()->elapsed(StepTimer::kGatherParameters);
  };
  const auto begin = now() - elsewhere();
  program_.executor->run(context(), rank_.arenas()["saved"], settings(), *this, hooks, observer);
  if (timers() != nullptr) timers()->add(StepTimer::kForwardBackward, now() - begin - elsewhere());
  if (rank_.asynchronous() != nullptr) losses_.sum_losses_over_ranks();
  for (LaterScalar& skip : skips_) overflowed_ = skip.wait() != 0.0 || overflowed_;
}

Executor::Rehearsal TrainingRun::rehearse(nn::UnitHooks* last_hooks) {
  nn::HooksInTurn hooks = rank_.states().hooks({rank_.programs().saved_files(), last_hooks});
  return program_.executor->rehearse(context(), rank_.arenas()["saved"], settings(), *this, hooks);
}

std::vector<StepResult> TrainingRun::results() const {
  const OptimizerConfig& flags = rank_.config().optimizer;
  const Optimizer& optimizer = rank_.optimizer();
  context().backend.throw_faults(context().queue);
  std::vector<StepResult> results;
  for (std::size_t i = 0; i < iterations_.size(); ++i) {
    const std::int64_t updates = updates_per_iteration();
    StepResult result;
    result.losses = losses_.read(static_cast<std::int64_t>(i) * updates, updates);
    result.skipped = overflowed_;
    result.grad_norm = rank_.asynchronous() != nullptr ? std::numeric_limits<double>::quiet_NaN()
                                                       : read_scalar(context(), optimizer.norm());
    if (flags.log_num_zeros_in_grad) {
      result.zeros_in_grad =
          read_scalar(context(), optimizer.zeros()) -
          static_cast<double>(counted_padding(rank_.whole_table(), rank_.region().layout().size));
    }
    results.push_back(result);
  }
  if (flags.log_params_norm) results.back().parameters_norm = parameters_norm();
  return results;
}

double TrainingRun::parameters_norm() const {
  const Tensor& squares = rank_.states().optimizer().parameter_squares(context());
  // Under an asynchronous schedule the optimizer knows the parameters of its stage alone.
  if (rank_.asynchronous() != nullptr) {
    sum_over(context(), rank_.ranks().pipeline.get(), squares);
  }
  const WorkspaceScope scope(context().workspace);
  const Tensor sum = context().workspace.allocate(DType::kF64, {1});
  ops::total(context(), {.sum = sum, .x = squares});
  return std::sqrt(read_scalar(context(), sum));
}

const nn::Batch& TrainingRun::load(int microbatch) {
  const nn::Batch& batch = StepRun::load(microbatch);
  // A stage that updates on its own must know by how many tokens to divide.
  const AsynchronousUpdates* asynchronous = rank_.asynchronous();
  if (asynchronous != nullptr && !rank_.losses().averages_microbatches &&
      !rank_.states().model().has_head) {
    asynchronous->count(context(), batch[rank_.losses().mask_column],
                        losses(microbatch).front().count);
  }
  return batch;
}

nn::Weights TrainingRun::stale_weights(int version) {
  return rank_.asynchronous()->weights(version);
}

void TrainingRun::reduce_gradients(int chunk) { rank_.states().data_parallel().reduce(chunk); }

void TrainingRun::optimizer_step(int version) {
  rank_.states().data_parallel().finish_reduction();
  const std::int64_t update = version - 1;
  const std::int64_t updates = updates_per_iteration();
  const StepSchedule& schedule = iterations_[static_cast<std::size_t>(update / updates)];
  const Tensor tokens = losses_.divisor(update);
  const Tensor& loss_scale = rank_.losses().scale;
  if (AsynchronousUpdates* asynchronous = rank_.asynchronous()) {
    asynchronous->before_update(context(), tokens);
  } else {
    losses_.sum_over_ranks();
    // A loss that is not finite prevents the update, as a gradient does that is not: all gradients
    // are divided by a scale that is not a number. The next step sets the scale again.
    if (checks_for_nan(rank_.config()) && !losses_.are_finite(update)) {
      write_scalar(context(), loss_scale, std::numeric_limits<double>::quiet_NaN());
    }
  }
  Optimizer& optimizer = rank_.states().optimizer();
  if (observer_ != nullptr) observer_->update_begins();
  optimizer.step(context(), {.lr = schedule.lr,
                             .decoupled_lr = schedule.decoupled_lr,
                             .weight_decay = schedule.weight_decay,
                             .step = schedule.adam_step + update % updates,
                             .tokens = tokens,
                             .expected_tokens = losses_.tokens_per_update(),
                             .loss_scale = loss_scale});
  skips_.emplace_back(context(), optimizer.skip());
  if (observer_ != nullptr) observer_->update_ends();
  if (version < program_.updates()) begin_update(version);
}

void TrainingRun::gather_parameters() { rank_.states().data_parallel().gather(); }

}  // namespace phalanx
