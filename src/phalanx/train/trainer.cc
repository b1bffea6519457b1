#include "phalanx/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/metrics/training_log.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/first_touch.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/populate_arenas.h"
#include "phalanx/start/rank_runner.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/start/stillness_limit.h"
#include "phalanx/train/run_report.h"
#include "phalanx/train/run_saver.h"
#include "phalanx/train/run_sinks.h"
#include "phalanx/train/run_times.h"
#include "phalanx/train/step_trace.h"
#include "phalanx/watch/nan_finder.h"
#include "phalanx/watch/replica_check.h"

namespace phalanx {
namespace {

constexpr const char* kNothingIsLost = "training had not begun: nothing is lost";

std::string name_of_signal(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

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

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Whoever watches over the rank sees that its passes go on.
class WatchedPasses final : public PassObserver {
 public:
  WatchedPasses(RankWatch& watch, PassObserver* next) : watch_(watch), next_(next) {}

  void begin(const Action& pass) override {
    if (next_ != nullptr) next_->begin(pass);
  }
  void end(const Action& pass) override {
    watch_.tick();
    if (next_ != nullptr) next_->end(pass);
  }

 private:
  RankWatch& watch_;
  PassObserver* next_;
};

// One rank's run and everything it is made of, in the order in which it comes to be.
class Trainer {
 public:
  // `checkpoint` is what the run begins with, or null; it is not needed any more after this.
  // `sinks` are the first rank's, or null.
  Trainer(const RunSetup& setup, const CheckpointReader* checkpoint, const StopToken& stop,
          RunSinks* sinks, Communicator& world, RankWatch& watch);
  // The world ends where this throws.
  RunEnd run();

 private:
  RunEnd loop();
  // This rank's samples of a split, from here on. What reads them ahead runs on any rank's cores:
  // its own are its team's.
  std::unique_ptr<RunData::Stream> open(SplitKind kind, std::int64_t consumed,
                                        std::size_t set = 0) const {
    return std::make_unique<RunData::Stream>(*setup_.data, kind, consumed, ranks_.at.data, set,
                                             setup_.affinity.all());
  }
  // The last step's passes are timed for --trace and for what --save keeps of the run.
  bool is_traced() const { return !config_.run.trace.empty() || !config_.run.save.empty(); }
  std::string last_step();
  std::vector<StepSchedule> next_schedules() const;
  // As save_periodically(), which it does where the batch changes.
  std::optional<RunEnd> change_batch();
  // The reason to leave, if there is one by then.
  std::optional<RunEnd> save_periodically();
  void train_until_drained();
  // Where a step was not made and no loss scale explains it: says where that began, and ends.
  void count_losses(StepSchedule& schedule);
  void check_for_nan(std::span<const StepSchedule> schedules, std::span<const StepResult> steps);
  bool is_left_out(std::int64_t iteration) const;
  void leave_out_iteration();
  void count(const StepResult& step, std::int64_t global_batch);
  // False where a signal gave the evaluation up: it leaves no trace.
  bool evaluate(SplitKind kind, const std::string& place);
  struct SetResult {
    std::vector<double> losses;  // means
    std::vector<double> counts;  // of the family's EvaluationScores
  };
  // What one set came to; nothing where the evaluation is given up.
  std::optional<SetResult> evaluate_set(SplitKind kind, std::size_t set);
  bool evaluate_at_interval();
  bool final_evaluation();
  // The reason to leave after this iteration, if there is one: the same on all ranks.
  std::optional<RunEnd> exit_condition();
  RunEnd stop_by_signal(int signal, bool has_trained = true);
  RunEnd stopped();
  RunEnd skip_training();

  const RunSetup& setup_;
  const TrainConfig& config_;
  const StopToken& stop_;
  RankWatch& watch_;
  Clock::time_point start_ = Clock::now();
  StepTimers timers_;
  RankCommunicators ranks_;
  const MemoryPlan& plan_;
  std::unique_ptr<Backend> backend_;
  RankArenas arenas_;
  HighWaterCheck high_water_;
  Rank rank_;
  LossScaler scaler_;
  RunState state_;
  // All holders of a weight have the same bits of it after this iteration: when the run begins, and
  // with every comparison of --check-weight-hash-across-dp-replicas-interval.
  std::int64_t ranks_are_same_;
  std::vector<std::int64_t> left_out_;  // --iterations-to-skip
  RunTimes times_;
  std::unique_ptr<RunData::Stream> train_stream_;
  std::unique_ptr<RunData::Stream> valid_stream_;  // of the only set, where evaluations go on
  RunReport report_;
  StepTrace trace_;
  RunSaver saver_;
};

// With --allow-overcommit memory is taken when it is written, by the team; but a checkpoint is read
// by one thread into what the team will compute on.
RankArenas arenas_of_run(const RunSetup& setup, Communicator& world, Backend& backend,
                         bool from_checkpoint, const StopToken& stop) {
  const int rank = world.rank();
  const int threads = static_cast<int>(setup.config.layout.threads_per_rank);
  const MemoryPlan& plan = setup.plan_of(rank);
  RankArenas arenas(plan.bytes);
  arenas.folders = open_folders(setup.config.layout, setup.name, rank, [&] {
    if (stop() != 0) throw StoppedEarly{};
  });
  // Where the disk is one, all files are known to be too large before the first one is made.
  if (arenas.folders.size() == 1) arenas.folders.begin()->second->expect_space(plan.file_bytes);
  if (!setup.config.run.allow_overcommit) {
    Context context{.backend = backend, .workspace = arenas["workspace"], .recorder = nullptr};
    populate_arenas(world, context, setup.places, arenas.all(), {.threads = threads});
  } else if (from_checkpoint) {
    for (const MemoryRow row :
         {MemoryRow("parameters"), MemoryRow("main_parameters"), MemoryRow("optimizer")}) {
      cpu::FirstTouch(threads, arenas[row]).take(arenas[row].capacity());
    }
  }
  return arenas;
}

RunState start_state(const RunSetup& setup, const CheckpointReader* checkpoint, Rank& rank,
                     StepTimers& timers) {
  const TimerScope time(checkpoint != nullptr ? &timers : nullptr, StepTimer::kLoadCheckpoint);
  const auto busy = rank.ranks().world->busy(checkpoint != nullptr ? "loading the checkpoint"
                                                                   : "drawing the weights");
  if (checkpoint != nullptr) return load_run(setup.config, *checkpoint, rank);
  rank.initialise();
  RunState fresh;
  fresh.loss_scaler = loss_scaler(setup.config).state();
  return fresh;
}

Trainer::Trainer(const RunSetup& setup, const CheckpointReader* checkpoint, const StopToken& stop,
                 RunSinks* sinks, Communicator& world, RankWatch& watch)
    : setup_(setup),
      config_(setup.config),
      stop_(stop),
      watch_(watch),
      ranks_(setup.grid, world, &timers_),
      plan_(setup.plan_of(world.rank())),
      backend_(make_cpu_backend(static_cast<int>(config_.layout.threads_per_rank),
                                setup.products.products)),
      arenas_(arenas_of_run(setup, world, *backend_, checkpoint != nullptr, stop)),
      high_water_(plan_, arenas_),
      rank_(config_, *setup.model, setup.programs, ranks_, *backend_, arenas_),
      scaler_(loss_scaler(config_)),
      state_(start_state(setup, checkpoint, rank_, timers_)),
      ranks_are_same_(state_.iteration),
      left_out_(iterations_to_skip(config_.run)),
      times_(setup, rank_, timers_, start_),
      report_(setup, plan_, state_, sinks, times_.of_setup()),
      saver_(setup, rank_, times_, report_) {
  if (is_traced()) {
    std::size_t most = 0;
    for (const auto& [size, pipeline] : setup.programs.training) {
      const Program& program = pipeline.ranks[static_cast<std::size_t>(ranks_.at.pipeline)];
      most = std::max(most, program.actions.size());
    }
    trace_.reserve(most);
  }
  scaler_.restore(state_.loss_scaler);
  state_.evaluation_is_due = setup.length.begin().evaluation_is_due;
  state_.requested = setup.data->counts();
  const bool shares = std::ranges::any_of(rank_.gradients().shared(), [&](const auto& sum) {
    return rank_.states().holders_of(sum) != nullptr;
  });
  if (config_.run.check_weight_hash_across_dp_replicas_interval > 0 && !ranks_.data && !shares) {
    report_.note(RunNote::Kind::kWarning, state_.iteration,
                 "--check-weight-hash-across-dp-replicas-interval compares nothing: there is one "
                 "data-parallel rank, and no parameter that ranks share");
  }
  train_stream_ = open(SplitKind::kTrain, state_.consumed_train_samples);
  const bool goes_on = !setup.data->is_read_whole(SplitKind::kValid);
  if (goes_on && setup.data->sets(SplitKind::kValid).size() == 1) {
    valid_stream_ = open(SplitKind::kValid, state_.consumed_valid_samples);
  }
}

RunEnd Trainer::run() {
  try {
    const RunEnd end = loop();
    // Peers may read this rank's parameters until all of the last step have come in.
    rank_.finish_gather();
    report_.end({.outcome = outcome_of(end),
                 .iteration = state_.iteration,
                 .error = {},
                 .facts = last_step()});
    return end;
  } catch (const std::exception& error) {
    ranks_.world->abort(error.what());
    report_.end({.outcome = RunEnding::Outcome::kFailed,
                 .iteration = state_.iteration,
                 .error = error.what()});
    throw;
  }
}

// All ranks at the same time; what the first one tells of the last step.
std::string Trainer::last_step() {
  if (!is_traced()) return {};
  const std::optional<MeasuredStep> step = gather_step(setup_, trace_, ranks_, rank_.context());
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

// A training run.
RunEnd Trainer::loop() {
  if (const int signal = rank_.largest_of_all(stop_()); signal != 0) {
    return stop_by_signal(signal, /*has_trained=*/false);
  }
  if (config_.run.skip_train) return skip_training();
  if (state_.evaluation_is_due && !evaluate_at_interval()) return stopped();
  while (state_.iteration < setup_.length.last_iteration()) {
    if (const auto end = change_batch()) return *end;
    if (is_left_out(state_.iteration + 1)) {
      leave_out_iteration();
    } else {
      train_until_drained();
    }
    const std::int64_t check = config_.run.check_weight_hash_across_dp_replicas_interval;
    if (check > 0 && state_.iteration % check == 0) {
      check_replicas(rank_, setup_.places, state_.iteration, [this] {
        return restart_advice(config_.run.save, setup_.directory.run_id(), ranks_are_same_);
      });
      ranks_are_same_ = state_.iteration;
    }

    if (setup_.digests && ranks_.world->rank() == 0) setup_.digests->check();
    if (setup_.length.evaluates_after(state_.iteration)) evaluate_at_interval();
    if (const auto end = exit_condition()) {
      saver_.save(state_, RunSaver::Occasion::kLeaving);
      return *end;
    }
    if (config_.run.save_interval > 0 && state_.iteration % config_.run.save_interval == 0) {
      if (const auto end = save_periodically()) return *end;
    }
  }
  report_.note(RunNote::Kind::kTrained, state_.iteration, "after training is done");
  saver_.save(state_, RunSaver::Occasion::kLeaving);
  if (!final_evaluation()) return stopped();
  return RunEnd::kFinished;
}

// After an evaluation was given up.
RunEnd Trainer::stopped() {
  const auto end = exit_condition();
  PHALANX_CHECK(end, "an evaluation was given up without a signal");
  saver_.save(state_, RunSaver::Occasion::kLeaving);
  return *end;
}

// --skip-train: what a run that is finished ends with. Nothing has changed that could be saved.
RunEnd Trainer::skip_training() {
  report_.note(RunNote::Kind::kExit, state_.iteration,
               "skipping training (--skip-train is on) ...");
  if (final_evaluation()) return RunEnd::kFinished;
  const auto end = exit_condition();
  PHALANX_CHECK(end, "an evaluation was given up without a signal");
  return *end;
}

bool Trainer::is_left_out(std::int64_t iteration) const {
  return std::ranges::find(left_out_, iteration) != left_out_.end();
}

// As Megatron: the samples are consumed, nothing is computed, and schedules stand still.
void Trainer::leave_out_iteration() {
  const std::int64_t batch = setup_.length.global_batch(state_.consumed_train_samples);
  state_.iteration += 1;
  state_.consumed_train_samples += batch;
  state_.left_out_samples += batch;
  train_stream_ = open(SplitKind::kTrain, state_.consumed_train_samples);
  report_.note(RunNote::Kind::kWarning, state_.iteration,
               fmt::format("iteration {} is left out: its {} samples are consumed and nothing is "
                           "computed (--iterations-to-skip)",
                           state_.iteration, batch));
  watch_.step(state_.iteration);
}

// What the iterations until the pipeline is empty again are scheduled to be, if none is skipped.
std::vector<StepSchedule> Trainer::next_schedules() const {
  const ParameterSchedule& parameters = setup_.schedule;
  std::vector<StepSchedule> schedules;
  const int iterations = iterations_until_drained(config_, setup_.length, state_.iteration);
  const std::int64_t batch = setup_.length.global_batch(state_.consumed_train_samples);
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

// As in Megatron, what was trained with another batch is saved first.
std::optional<RunEnd> Trainer::change_batch() {
  const RunLength::Stretch* next = setup_.length.change_after(state_.iteration);
  if (next == nullptr) return std::nullopt;
  report_.note(
      RunNote::Kind::kBatchSize, state_.iteration,
      fmt::format("global batch size is {} from iteration {} on ({} samples consumed)",
                  next->global_batch, state_.iteration + 1, state_.consumed_train_samples));
  return save_periodically();
}

// Whoever asks for the run's end while it saves gets this checkpoint: no step follows. Saved again
// where it has failed.
std::optional<RunEnd> Trainer::save_periodically() {
  saver_.save(state_, RunSaver::Occasion::kPeriodic);
  if (config_.run.save.empty()) return std::nullopt;
  const int signal = rank_.largest_of_all(stop_());
  if (signal == 0) return std::nullopt;
  const RunEnd end = stop_by_signal(signal);
  saver_.save(state_, RunSaver::Occasion::kLeaving);
  return end;
}

void Trainer::train_until_drained() {
  const auto begin = Clock::now();
  std::vector<StepSchedule> schedules = next_schedules();
  count_losses(schedules.front());
  trace_.clear();
  WatchedPasses passes(watch_, is_traced() ? &trace_ : nullptr);
  times_.begin_iterations();
  const std::vector<StepResult> steps = rank_.train(schedules, train_stream_->source(), &passes);
  times_.end_iterations(std::ssize(steps));
  const double seconds = seconds_since(begin) / static_cast<double>(steps.size());
  high_water_.after(
      {static_cast<int>(steps.size()), static_cast<int>(schedules.front().microbatches)});
  check_for_nan(schedules, steps);
  for (const StepResult& step : steps) {
    const std::int64_t batch = setup_.length.global_batch(state_.consumed_train_samples);
    count(step, batch);
    report_.iteration(state_, step, batch, setup_.schedule.learning_rates(state_.schedule_samples),
                      seconds, times_.of_iteration(is_logged(config_.run, state_.iteration)));
    watch_.step(state_.iteration);
  }
}

// Of a tensor-parallel group one rank reads.
void Trainer::count_losses(StepSchedule& schedule) {
  if (!rank_.wants_loss_counts() || ranks_.at.tensor != 0) return;
  schedule.loss_counts = train_stream_->counts(static_cast<int>(schedule.microbatches));
}

void Trainer::check_for_nan(std::span<const StepSchedule> schedules,
                            std::span<const StepResult> steps) {
  if (!checks_for_nan(config_)) return;
  const auto failed = [](const StepResult& step) {
    return step.skipped || !std::isfinite(step.loss());
  };
  // A fault of one machine may be seen by its rank alone.
  const bool here = std::ranges::any_of(steps, failed);
  if (rank_.largest_of_all(here ? 1 : 0) == 0) return;
  const auto again = open(SplitKind::kTrain, state_.consumed_train_samples);
  const BatchSource source = again->source();
  WatchedPasses passes(watch_, nullptr);
  explain_failed_step(rank_, config_, setup_.programs.placement(), setup_.places,
                      {.iteration = state_.iteration + 1,
                       .schedules = schedules,
                       .results = steps,
                       .source = source,
                       .observer = &passes});
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

std::optional<Trainer::SetResult> Trainer::evaluate_set(SplitKind kind, std::size_t set) {
  // Of several sets one after the other is open: what is read ahead does not grow with them.
  std::unique_ptr<RunData::Stream> own;
  const bool goes_on = kind == SplitKind::kValid && !setup_.data->is_read_whole(kind);
  const bool is_open = goes_on && valid_stream_ != nullptr;
  if (!is_open) own = open(kind, goes_on ? state_.consumed_valid_samples : 0, set);
  RunData::Stream& stream = is_open ? *valid_stream_ : *own;
  std::vector<LossResult> sums(setup_.model->losses().size());
  SetResult result;
  const std::int64_t iterations = setup_.data->evaluation_iterations(kind, set);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const auto step = rank_.evaluate_unless([this] { return stop_() != 0; }, stream.source());
    if (!step) return std::nullopt;
    for (std::size_t loss = 0; loss < sums.size(); ++loss) {
      sums[loss].mean += step->losses[loss].mean * step->losses[loss].count;
      sums[loss].count += step->losses[loss].count;
    }
    result.counts.resize(step->counts.size());
    std::ranges::transform(result.counts, step->counts, result.counts.begin(), std::plus());
  }
  for (const auto& [sum, count] : sums) result.losses.push_back(count > 0.0 ? sum / count : 0.0);
  return result;
}

bool Trainer::evaluate(SplitKind kind, const std::string& place) {
  if (config_.run.eval_iters == 0 || !setup_.data->has(kind)) return true;
  const auto busy =
      ranks_.world->busy(fmt::format("evaluating after iteration {}", state_.iteration));
  const auto& sets = setup_.data->sets(kind);
  std::vector<SetResult> results;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    auto result = evaluate_set(kind, set);
    if (!result) return false;
    results.push_back(std::move(*result));
  }
  high_water_.after_evaluation();
  // Every set is read as far as the others.
  if (kind == SplitKind::kValid && !setup_.data->is_read_whole(kind)) {
    state_.consumed_valid_samples += config_.run.eval_iters * setup_.length.evaluation_batch();
  }
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const std::string& name = sets[set].name;
    report_.evaluation(state_, kind, name,
                       name.empty() ? place : fmt::format("{}, {}", place, name),
                       results[set].losses, results[set].counts);
  }
  return true;
}

// One that is given up comes first when the run goes on.
bool Trainer::evaluate_at_interval() {
  const bool is_done = evaluate(SplitKind::kValid, fmt::format("iteration {}", state_.iteration));
  state_.evaluation_is_due = !is_done;
  return is_done;
}

bool Trainer::final_evaluation() {
  const std::string place = fmt::format("iteration {} on ", state_.iteration);
  return evaluate(SplitKind::kValid, place + "validation set") &&
         evaluate(SplitKind::kTest, place + "test set");
}

std::optional<RunEnd> Trainer::exit_condition() {
  // Signals and clocks reach ranks at different moments; the largest reason is everybody's.
  constexpr int kNone = 0;
  constexpr int kDuration = 1;
  constexpr int kSignals = 2;  // and the signal's number
  const double minutes = seconds_since(start_) / 60.0;
  int reason = kNone;
  if (config_.run.exit_duration_in_mins > 0.0 && minutes > config_.run.exit_duration_in_mins) {
    reason = kDuration;
  }
  if (const int signal = stop_(); signal != 0) reason = kSignals + signal;
  reason = rank_.largest_of_all(reason);
  const bool at_interval =
      config_.run.exit_interval > 0 && state_.iteration % config_.run.exit_interval == 0;
  if (reason == kNone && !at_interval) return std::nullopt;
  if (reason >= kSignals) return stop_by_signal(reason - kSignals);
  report_.note(RunNote::Kind::kExit, state_.iteration,
               reason == kDuration
                   ? fmt::format("exiting program after {} minutes", minutes)
                   : fmt::format("exiting program at iteration {}", state_.iteration));
  return RunEnd::kFinished;
}

RunEnd Trainer::stop_by_signal(int signal, bool has_trained) {
  report_.note(RunNote::Kind::kSignal, state_.iteration,
               fmt::format("exiting program after receiving {}.", name_of_signal(signal)));
  if (!has_trained) {
    report_.note(RunNote::Kind::kExit, state_.iteration, kNothingIsLost);
    return RunEnd::kPreempted;
  }
  if (!config_.run.save.empty()) return RunEnd::kPreempted;
  report_.note(RunNote::Kind::kWarning, state_.iteration, "nothing is saved: --save was not given");
  return RunEnd::kStopped;
}

RunEnd train_on_ranks(const RunSetup& setup, std::shared_ptr<const CheckpointReader> checkpoint,
                      const StopToken& stop, RunSinks& sinks, RankRunner& runner) {
  const RankOptions options{
      .threads_per_rank = static_cast<int>(setup.config.layout.threads_per_rank),
      .timeout = timeout_of(setup.config.run)};
  // All ranks end for the same reason.
  RunEnd end = RunEnd::kFinished;
  const int first = runner.own_ranks().front();
  // Every rank lets go of it when it has loaded.
  std::vector readers(setup.places.size(), checkpoint);
  checkpoint.reset();
  runner.run(options, [&](Communicator& world, RankWatch& watch) {
    const auto rank = static_cast<std::size_t>(world.rank());
    setup.affinity.bind(setup.places[rank].local_rank);  // before its team and memory are there
    if (!setup.config.run.hang_timeout_s) {
      watch.limit_stillness(stillness_limit(setup.plan_of(world.rank()).largest_unit,
                                            setup.peak_flops_of(world.rank())));
    }
    Trainer trainer(setup, readers[rank].get(), stop, rank == 0 ? &sinks : nullptr, world, watch);
    readers[rank].reset();
    const RunEnd mine = trainer.run();
    if (world.rank() == first) end = mine;
  });
  return end;
}

RunEnd prepare_and_train(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                         RankRunner& runner) {
  std::optional<RunSetup> setup;
  runner.prepare([&] { setup.emplace(config, runner, [&] { return stop() != 0; }); });
  if (setup->lock) setup->lock->expect_in_place();
  if (runner.leads()) setup->directory.claim();
  return train_on_ranks(*setup, std::move(setup->checkpoint), stop, sinks, runner);
}

}  // namespace

std::chrono::milliseconds timeout_of(const RunConfig& run) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(run.distributed_timeout_minutes * 60e3));
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                const MakeRankRunner& make_runner) {
  const StopToken asked = stop ? stop : [] { return 0; };
  try {
    return prepare_and_train(config, asked, sinks, *make_runner());
  } catch (const StoppedEarly&) {
    const std::string said =
        fmt::format("exiting program after receiving {}.", name_of_signal(asked()));
    log_info("{}", datetime_line(said, std::chrono::system_clock::now()));
    log_info("{}", kNothingIsLost);
    return RunEnd::kPreempted;
  }
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks) {
  return pretrain(config, stop, sinks, [&config] {
    return make_thread_runner(static_cast<int>(config.layout.world_size));
  });
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop) {
  RunSinks sinks = default_sinks(config.run);
  return pretrain(config, stop, sinks);
}

}  // namespace phalanx
