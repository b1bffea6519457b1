#include "phalanx/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/memory_limits.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/train/rank_beginning.h"
#include "phalanx/watch/nan_finder.h"
#include "phalanx/watch/replica_check.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

RunEnding::Outcome outcome_of(RunEnd end) {
  switch (end) {
    case RunEnd::kFinished:
      return RunEnding::Outcome::kFinished;
    case RunEnd::kPreempted:
      return RunEnding::Outcome::kPreempted;
    case RunEnd::kStopped:
      break;
  }
  return RunEnding::Outcome::kStopped;
}

// Tells the rank's watch that passes go on, and where updates are.
class WatchedPasses final : public PassObserver {
 public:
  WatchedPasses(RankWatch& watch, PassObserver* next, StepParts* parts = nullptr)
      : watch_(watch), next_(next), parts_(parts) {}

  void begin(const Action& pass) override {
    if (next_ != nullptr) next_->begin(pass);
  }
  void end(const Action& pass) override {
    watch_.tick();
    if (next_ != nullptr) next_->end(pass);
  }
  void update_begins() override {
    if (parts_ != nullptr) parts_->update_begins();
  }
  void update_ends() override {
    if (parts_ != nullptr) parts_->update_ends();
  }

 private:
  RankWatch& watch_;
  PassObserver* next_;
  StepParts* parts_;
};

bool shares_parameters(const Rank& rank) {
  return std::ranges::any_of(rank.states().shared_parameters(),
                             [](const auto& shared) { return shared.second != nullptr; });
}

// Its threads run on the cores of any rank: a rank's own are its team's.
BackgroundSaving background(const RunSetup& setup, RankWatch& watch) {
  return {.mailbox = watch.mailbox(), .on_thread = [&setup] {
            if (const auto cores = setup.affinity.all(); !cores.empty()) bind_thread(cores);
          }};
}

}  // namespace

Trainer::Trainer(const RunSetup& setup, const CheckpointReader* checkpoint, const StopToken& stop,
                 RunSinks* sinks, Communicator& world, RankWatch& watch)
    : setup_(setup),
      config_(setup.config),
      watch_(watch),
      ranks_(setup.grids, world, &timers_),
      plan_(setup.plan_of(world.rank())),
      memory_(setup.device.choice().make_memory()),
      backend_(setup.device.choice().make_backend(config_.layout.threads_per_rank)),
      arenas_(arenas_of_run(setup, world, *backend_, memory_ ? *memory_ : host_memory(),
                            checkpoint != nullptr, stop)),
      high_water_(plan_, arenas_),
      rank_(config_, *setup.model, setup.programs, ranks_, *backend_, arenas_),
      scaler_(loss_scaler(config_)),
      skipped_(config_),
      state_(begin_state(setup, checkpoint, rank_, timers_)),
      ranks_are_same_(state_.iteration),
      left_out_(iterations_to_skip(config_.run)),
      times_(setup, rank_, timers_, start_),
      train_stream_(
          setup.stream(SplitKind::kTrain, state_.consumed_train_samples, ranks_.coordinates)),
      log_(setup, plan_, state_, sinks, times_.of_setup()),
      // Weights of an asynchronous schedule change within a program.
      runs_ahead_(backend_->space() == MemorySpace::kDevice && !is_asynchronous(config_.layout)),
      evaluations_(setup, stop, rank_, high_water_, state_, log_),
      answers_(setup, stop, rank_, watch, log_),
      exits_(config_.run, stop, rank_, log_, start_, [this] { settle(); }),
      saver_(setup.saved_run(), setup.save_target(), rank_, listeners(), background(setup, watch)),
      second_places_(setup.saved_run(), rank_, listeners(), background(setup, watch)),
      snapshots_(snapshots_of(setup, rank_)) {
  if (is_traced()) reserve_trace();
  if (!config_.run.cluster.empty() && StepParts::can_measure(*backend_)) {
    parts_.emplace(rank_, setup.grids);
  }
  scaler_.restore(state_.loss_scaler);
  if (const std::string text = sinks != nullptr ? setup.device.unchecked_text() : std::string();
      !text.empty()) {
    log_.note({RunNote::Kind::kWarning, state_.iteration, text});
  }
  if (config_.run.check_weight_hash_across_dp_replicas_interval > 0 && !ranks_.data &&
      !shares_parameters(rank_)) {
    log_.note({RunNote::Kind::kWarning, state_.iteration,
               "--check-weight-hash-across-dp-replicas-interval compares nothing: there is one "
               "data-parallel rank, and no parameter that ranks share"});
  }
}

RunSaver::Listeners Trainer::listeners() {
  return {.note = [this](const RunNote& note) { log_.note(note); },
          .timers = timers_,
          .times = [this] { return times_.of_save(); }};
}

RunEnd Trainer::run() {
  try {
    const RunEnd end = loop();
    // Peers may read this rank's parameters until all of the last step have come in.
    rank_.finish_gather();
    log_.parts(measured_parts());
    log_.end({.outcome = outcome_of(end),
              .iteration = state_.iteration,
              .error = {},
              .facts = last_step(),
              .consumed_samples = state_.consumed_train_samples});
    return end;
  } catch (const std::exception& error) {
    ranks_.abort(text_of(error));
    settle_quietly();
    log_.end({.outcome = RunEnding::Outcome::kFailed,
              .iteration = state_.iteration,
              .error = text_of(error),
              .consumed_samples = state_.consumed_train_samples});
    throw;
  }
}

// A training run.
RunEnd Trainer::loop() {
  if (exits_.stops_before_training(state_.iteration)) return RunEnd::kPreempted;
  if (config_.run.skip_train) return skip_training();
  if (state_.evaluation_is_due) {
    if (!evaluations_.at_interval()) return save_and_leave(end_of_given_up_evaluation());
    answers_.after(state_);
  }
  while (enqueued_iteration() < setup_.length.last_iteration()) {
    if (const auto end = change_batch()) return *end;
    if (is_left_out(enqueued_iteration() + 1)) {
      leave_out_iteration();
    } else {
      train_until_drained();
    }
    const bool pauses = pauses_after(config_, setup_.length, enqueued_iteration());
    if (pauses || !runs_ahead_) settle();
    saver_.poll(state_.iteration);
    if (!under_way_) compare_replicas();
    if (setup_.digests && ranks_.world->rank() == 0) setup_.digests->check();
    if (!under_way_ && setup_.length.evaluates_after(state_.iteration)) evaluations_.at_interval();
    if (!under_way_) answers_.after(state_);
    if (const auto end = exits_.any_after(enqueued_iteration())) return save_and_leave(*end);
    if (under_way_) continue;
    if (config_.run.save_interval > 0 && state_.iteration % config_.run.save_interval == 0) {
      if (const auto end = save_periodically()) return *end;
    }
    second_places_.save(state_);
    snapshots_.after(state_.iteration, [this] { return saver_.manifest_of(state_); });
  }
  log_.note({RunNote::Kind::kTrained, state_.iteration, "after training is done"});
  saver_.save(state_, RunSaver::Occasion::kLeaving);
  second_places_.save_end(state_);
  expect_trained();
  if (!evaluations_.at_end()) return save_and_leave(end_of_given_up_evaluation());
  return RunEnd::kFinished;
}

// As in Megatron, what was trained with another batch is saved first.
std::optional<RunEnd> Trainer::change_batch() {
  const RunLength::Stretch* next = setup_.length.change_after(enqueued_iteration());
  if (next == nullptr) return std::nullopt;
  settle();
  log_.note({RunNote::Kind::kBatchSize, state_.iteration,
             fmt::format("global batch size is {} from iteration {} on ({} samples consumed)",
                         next->global_batch, state_.iteration + 1, state_.consumed_train_samples)});
  return save_periodically();
}

// A signal that comes while the run saves needs no further step: it ends with this checkpoint,
// which is saved again where saving failed.
std::optional<RunEnd> Trainer::save_periodically() {
  saver_.save(state_, RunSaver::Occasion::kPeriodic);
  if (config_.run.save.empty()) return std::nullopt;
  const auto end = exits_.signal_after(state_.iteration);
  if (!end) return std::nullopt;
  return save_and_leave(*end);
}

RunEnd Trainer::save_and_leave(RunEnd end) {
  saver_.save(state_, RunSaver::Occasion::kLeaving);
  return end;
}

void Trainer::compare_replicas() {
  const std::int64_t interval = config_.run.check_weight_hash_across_dp_replicas_interval;
  if (interval == 0 || state_.iteration % interval != 0) return;
  check_replicas(rank_, setup_.places, state_.iteration, [this] {
    return restart_advice(config_.run.save, setup_.identity.run_id, ranks_are_same_);
  });
  ranks_are_same_ = state_.iteration;
}

bool Trainer::is_left_out(std::int64_t iteration) const {
  return std::ranges::find(left_out_, iteration) != left_out_.end();
}

// As in Megatron, the samples are consumed, nothing is computed, and schedules stand still.
void Trainer::leave_out_iteration() {
  settle();
  const std::int64_t batch = setup_.length.global_batch(state_.consumed_train_samples);
  state_.iteration += 1;
  state_.consumed_train_samples += batch;
  state_.left_out_samples += batch;
  train_stream_ =
      setup_.stream(SplitKind::kTrain, state_.consumed_train_samples, ranks_.coordinates);
  log_.note({RunNote::Kind::kWarning, state_.iteration,
             fmt::format("iteration {} is left out: its {} samples are consumed and nothing is "
                         "computed (--iterations-to-skip)",
                         state_.iteration, batch)});
  watch_.step(state_.iteration);
}

std::int64_t Trainer::enqueued_iteration() const {
  return state_.iteration + (under_way_ ? std::ssize(under_way_->schedules) : 0);
}

std::int64_t Trainer::enqueued_samples() const {
  return state_.consumed_train_samples + (under_way_ ? under_way_->samples : 0);
}

void Trainer::train_until_drained() {
  const auto begin = Clock::now();
  // Passes multiply by a scale that the last step may have changed.
  if (scaler_.is_dynamic()) settle();
  std::vector<StepSchedule> schedules = next_schedules();
  StepSchedule& first = schedules.front();
  if (rank_.wants_loss_counts() && ranks_.coordinates.tensor == 0) {
    first.loss_counts = train_stream_->counts(static_cast<int>(first.microbatches));
  }
  const auto settings = [&]() -> std::optional<std::span<const StepSchedule>> {
    if (!under_way_) return schedules;
    if (!settle_before_updates()) return std::nullopt;
    // A step that was skipped moves neither rates nor Adam's count.
    std::vector<StepSchedule> settled = next_schedules();
    settled.front().loss_counts = std::move(schedules.front().loss_counts);
    schedules = std::move(settled);
    return schedules;
  };
  trace_.clear();
  StepParts* const parts = parts_ ? &*parts_ : nullptr;
  WatchedPasses passes(watch_, is_traced() ? &trace_ : nullptr, parts);
  times_.begin_iterations();
  if (parts != nullptr) parts->begin();
  StepsUnderWay steps =
      rank_.begin_training(schedules, train_stream_->source(), &passes, nullptr, settings);
  if (parts != nullptr) parts->end(std::ssize(schedules));
  times_.end_iterations(std::ssize(schedules));
  high_water_.after(
      {static_cast<int>(schedules.size()), static_cast<int>(schedules.front().microbatches)});
  if (failed_) explain_failure(*under_way_, *failed_, true);
  const std::int64_t batch = setup_.length.global_batch(enqueued_samples());
  const std::int64_t samples = std::ssize(schedules) * batch;
  const std::optional<std::int64_t> save_bytes = saver_.take_begun_bytes();
  under_way_.emplace(UnderWay{.results = std::move(steps),
                              .schedules = std::move(schedules),
                              .samples = samples,
                              .begin = begin,
                              .is_saving = save_bytes || saver_.is_under_way(),
                              .save_bytes = save_bytes});
}

void Trainer::settle() {
  if (!under_way_) return;
  UnderWay done = *std::exchange(under_way_, std::nullopt);
  const std::vector<StepResult> steps = done.results.wait();
  if (has_failed(steps)) explain_failure(done, steps, false);
  take_in(std::move(done), steps);
}

bool Trainer::settle_before_updates() {
  std::vector<StepResult> steps = under_way_->results.wait();
  if (has_failed(steps)) {
    failed_ = std::move(steps);
    return false;
  }
  take_in(*std::exchange(under_way_, std::nullopt), steps);
  return true;
}

// Alone: other ranks may be anywhere.
void Trainer::settle_quietly() noexcept {
  if (!under_way_ || failed_ || ranks_.world->size() > 1) return;
  try {
    settle();
  } catch (const std::exception&) {
    // The run ends with its first error.
  }
}

void Trainer::take_in(UnderWay done, std::span<const StepResult> steps) {
  const auto now = Clock::now();
  const double seconds =
      std::chrono::duration<double>(now - std::max(done.begin, std::exchange(settled_, now)))
          .count() /
      static_cast<double>(steps.size());
  for (const StepResult& step : steps) {
    const std::int64_t batch = setup_.length.global_batch(state_.consumed_train_samples);
    count(step, batch);
    IterationTimes times = times_.of_iteration(is_logged(config_.run, state_.iteration));
    if (is_logged(config_.run, state_.iteration)) times.parts = measured_parts();
    times.is_saving = done.is_saving;
    times.save_bytes = std::exchange(done.save_bytes, std::nullopt);
    log_.iteration(state_, step, batch, setup_.schedule.learning_rates(state_.schedule_samples),
                   seconds, std::move(times));
    if (const auto warning = skipped_.after(state_.iteration, step.skipped, step.loss(), scaler_)) {
      log_.note({RunNote::Kind::kWarning, state_.iteration, *warning});
    }
    watch_.step(state_.iteration);
  }
}

std::vector<std::vector<double>> Trainer::measured_parts() {
  if (!parts_) return {};
  return gather_numbers(*ranks_.control, rank_.host_context(), parts_->take());
}

// The schedules of the iterations until the pipeline is empty again, if none of them is skipped.
std::vector<StepSchedule> Trainer::next_schedules() const {
  const ParameterSchedule& parameters = setup_.schedule;
  std::vector<StepSchedule> schedules;
  const int iterations = iterations_until_drained(config_, setup_.length, enqueued_iteration());
  const std::int64_t batch = setup_.length.global_batch(enqueued_samples());
  const std::int64_t microbatches = num_microbatches(config_.layout, batch);
  const std::int64_t updates = updates_per_iteration(config_.layout, microbatches);
  std::int64_t planned = 0;  // samples
  for (int i = 0; i < iterations; ++i) {
    const std::int64_t samples = state_.schedule_samples + planned;
    planned += batch;
    const LearningRates rates = parameters.learning_rates(samples);
    schedules.push_back({.lr = rates.rate,
                         .decoupled_lr = rates.decoupled,
                         .weight_decay = parameters.weight_decay(samples),
                         .adam_step = state_.adam_step + 1 + i * updates,
                         .loss_scale = scaler_.scale(),
                         .microbatches = microbatches});
  }
  return schedules;
}

bool Trainer::has_failed(std::span<const StepResult> steps) {
  if (!checks_for_nan(config_)) return false;
  const bool here = std::ranges::any_of(
      steps, [](const StepResult& step) { return step.skipped || !std::isfinite(step.loss()); });
  // Where a machine is faulty, perhaps only its own rank sees it.
  return rank_.largest_of_all(here ? 1 : 0) != 0;
}

void Trainer::explain_failure(const UnderWay& failed, std::span<const StepResult> steps,
                              bool next_has_run) {
  const auto again =
      setup_.stream(SplitKind::kTrain, state_.consumed_train_samples, ranks_.coordinates);
  const BatchSource source = again->source();
  WatchedPasses passes(watch_, nullptr);
  explain_failed_step(rank_, config_, setup_.programs.placement(), setup_.places,
                      {.iteration = state_.iteration + 1,
                       .schedules = failed.schedules,
                       .results = steps,
                       .source = source,
                       .observer = &passes,
                       .next_has_run = next_has_run});
}

void Trainer::count(const StepResult& step, std::int64_t global_batch) {
  scaler_.update(step.skipped);
  state_.loss_scaler = scaler_.state();
  state_.iteration += 1;
  state_.consumed_train_samples += global_batch;
  // A skipped iteration has consumed its samples; the schedules and Adam's count stand still.
  if (step.skipped) return;
  state_.adam_step +=
      updates_per_iteration(config_.layout, num_microbatches(config_.layout, global_batch));
  state_.schedule_samples += global_batch;
}

RunEnd Trainer::end_of_given_up_evaluation() {
  const auto end = exits_.any_after(state_.iteration);
  PHALANX_CHECK(end, "an evaluation was given up without a signal");
  return *end;
}

// A run that was begun again where nothing is left to train has skipped its iterations before.
void Trainer::expect_trained() const {
  const bool goes_on = setup_.loaded && !config_.run.finetune && !config_.run.no_load_optim;
  const bool has_skipped = skipped_.skipped() > 0 ||
                           (goes_on && state_.consumed_train_samples > state_.left_out_samples);
  if (state_.adam_step > 0 || !has_skipped) return;
  throw ErrorOf<ErrorCode::kDoNotRestart>(
      "nothing was trained: all iterations were skipped, because their gradients were not finite. "
      "{}{}",
      skipped_.skipped() > 0 ? skipped_.reason(scaler_)
                             : std::string("The checkpoint has weights that were never updated"),
      config_.run.save.empty() ? ""
                               : fmt::format("; begin again, with another --save or --overwrite: "
                                             "what is in {} is not trained",
                                             config_.run.save));
}

// --skip-train: only the evaluations at the end of a run. There is nothing new to save.
RunEnd Trainer::skip_training() {
  log_.note({RunNote::Kind::kExit, state_.iteration, "skipping training (--skip-train is on) ..."});
  return evaluations_.at_end() ? RunEnd::kFinished : end_of_given_up_evaluation();
}

// Steps must not allocate memory for it.
void Trainer::reserve_trace() {
  std::size_t most = 0;
  for (const auto& [size, pipeline] : setup_.programs.training) {
    most = std::max(
        most, pipeline.ranks[static_cast<std::size_t>(ranks_.coordinates.pipeline)].actions.size());
  }
  trace_.reserve(most);
}

std::string Trainer::last_step() {
  if (!is_traced()) return {};
  const std::optional<MeasuredStep> step =
      gather_step(setup_, trace_, ranks_, rank_.host_context());
  if (!step) return {};
  if (!config_.run.trace.empty()) write_step_trace(config_.run.trace, *step);
  try {
    return fmt::format(R"({{"timeline": {}}})", timeline_json(*step));
  } catch (const std::exception& error) {
    // The run is worth more than its picture.
    log_warning("the timeline of the last step is not kept: {}", error.what());
    return {};
  }
}

}  // namespace phalanx
