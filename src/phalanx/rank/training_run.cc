#include <cmath>
#include <limits>
#include <utility>

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
  rank.states().routers().begin(context());
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
  if (rank_.asynchronous() == nullptr) return;
  losses_.sum_losses_over_ranks();
  rank_.states().routers().end(context(), nullptr);
}

Executor::Rehearsal TrainingRun::rehearse(nn::UnitHooks* last_hooks, std::vector<Trace>* traces) {
  nn::HooksInTurn hooks = rank_.states().hooks({rank_.programs().saved_files(), last_hooks});
  return program_.executor->rehearse(context(), rank_.arenas()["saved"], settings(), *this, hooks,
                                     traces);
}

StepsUnderWay TrainingRun::results() {
  if (rank_.config().optimizer.log_params_norm) sum_parameter_squares();
  const std::int64_t updates = updates_per_iteration();
  const auto read = [&rank = rank_, iterations = std::ssize(iterations_), updates,
                     count = losses_.fixed_count(updates),
                     microbatches = losses_.microbatches_per_update(),
                     tokens = static_cast<double>(program_.updates()) *
                              losses_.tokens_per_update()](std::span<const std::byte> all) {
    const StepNumbers& numbers = rank.states().numbers();
    const OptimizerResults& of_optimizer = numbers.of_optimizer();
    const auto number = [&](const Tensor& part) { return numbers.read(part, all).front(); };
    const std::vector<double> sums = numbers.read(numbers.loss_sums(), all);
    std::vector<double> auxiliary_sums;
    if (numbers.auxiliary_sums()) auxiliary_sums = numbers.read(numbers.auxiliary_sums(), all);
    std::vector<StepResult> results;
    for (std::int64_t i = 0; i < iterations; ++i) {
      StepResult result;
      result.losses = rank.losses().results(sums, i * updates, updates, count);
      result.auxiliary_losses =
          rank.losses().auxiliary_results(auxiliary_sums, i * updates, updates, microbatches);
      result.skipped = number(of_optimizer.skip) != 0.0;
      result.grad_norm = rank.asynchronous() != nullptr ? std::numeric_limits<double>::quiet_NaN()
                                                        : number(of_optimizer.norm);
      if (of_optimizer.zeros) {
        result.zeros_in_grad =
            number(of_optimizer.zeros) -
            static_cast<double>(counted_padding(
                rank.whole_table(), {.dense = rank.region().layout().size,
                                     .expert = rank.expert_region().layout().tensor_size}));
      }
      results.push_back(result);
    }
    if (numbers.router_counts()) {
      const auto all_numbers = [&](const Tensor& part) {
        return part ? numbers.read(part, all) : std::vector<double>();
      };
      results.back().router_loads = rank.states().routers().loads(
          all_numbers(numbers.router_counts()), all_numbers(numbers.expert_biases()), tokens);
    }
    if (const Tensor& squares = numbers.parameter_squares()) {
      results.back().parameters_norm = std::sqrt(number(squares));
    }
    return results;
  };
  Backend& backend = context().backend;
  ReadBack numbers = backend.read_later(context().queue, rank_.states().numbers().all());
  return {std::move(numbers), backend.faults_later(context().queue), std::move(skips_), read};
}

void TrainingRun::sum_parameter_squares() const {
  const Tensor& squares = rank_.states().optimizer().parameter_squares(context());
  // Under an asynchronous schedule the optimizer knows the parameters of its stage alone.
  if (rank_.asynchronous() != nullptr) {
    sum_over(context(), rank_.ranks().pipeline.get(), squares);
  }
  ops::total(context(), {.sum = rank_.states().numbers().parameter_squares(), .x = squares});
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

bool TrainingRun::take_settings() {
  if (updates_ == nullptr) return true;
  const auto asked = (*updates_)();
  if (!asked) return false;
  PHALANX_CHECK(asked->size() == iterations_.size(), "schedules of {} iterations, there are {}",
                asked->size(), iterations_.size());
  iterations_ = *asked;
  return true;
}

void TrainingRun::optimizer_step(int version) {
  rank_.states().data_parallel().finish_reduction();
  const std::int64_t update = version - 1;
  if (update == 0) makes_updates_ = take_settings();
  const std::int64_t updates = updates_per_iteration();
  const StepSchedule& schedule = iterations_[static_cast<std::size_t>(update / updates)];
  // Without a count of tokens a scale that is no number alone decides.
  const Tensor tokens = makes_updates_ ? losses_.divisor(update) : Tensor{};
  const Tensor& loss_scale = rank_.losses().scale;
  const bool is_synchronous = rank_.asynchronous() == nullptr;
  if (is_synchronous) {
    losses_.sum_over_ranks();
  } else {
    rank_.asynchronous()->before_update(context(), tokens);
  }
  // The next step sets the scale again.
  if (!makes_updates_) {
    write_scalar(context(), loss_scale, std::numeric_limits<double>::quiet_NaN());
  }
  // A loss that is not finite prevents the update, as a gradient does that is not.
  const bool checks = is_synchronous && checks_for_nan(rank_.config());
  Optimizer& optimizer = rank_.states().optimizer();
  // As in Megatron, also where the optimizer skips the update.
  if (is_synchronous && makes_updates_) {
    rank_.states().routers().end(context(), rank_.states().fence());
  }
  if (observer_ != nullptr) observer_->update_begins();
  optimizer.step(context(), {.lr = schedule.lr,
                             .decoupled_lr = schedule.decoupled_lr,
                             .weight_decay = schedule.weight_decay,
                             .step = schedule.adam_step + update % updates,
                             .tokens = tokens,
                             .expected_tokens = losses_.tokens_per_update(),
                             .loss_scale = loss_scale,
                             .checked = checks ? rank_.losses().sums : Tensor{}});
  if (observer_ != nullptr) observer_->update_ends();
  if (version == program_.updates()) return;
  skips_.emplace_back(context(), optimizer.skip());
  begin_update(version);
}

void TrainingRun::gather_parameters() { rank_.states().data_parallel().gather(); }

}  // namespace phalanx
