#include "phalanx/train/trainer.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/train/memory_plan.h"
#include "phalanx/train/run_checkpoint.h"
#include "phalanx/train/run_data.h"
#include "phalanx/train/run_report.h"
#include "phalanx/train/signals.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The run and everything it is made of, in the order in which it comes to be.
class Trainer {
 public:
  explicit Trainer(TrainConfig config);
  RunEnd run();

 private:
  StepResult train_step();
  void evaluate(SplitKind kind, const std::string& place);
  void final_evaluation();
  void save();
  // The reason to leave after this iteration, if there is one.
  std::optional<RunEnd> exit_condition();

  TrainConfig config_;
  Clock::time_point start_ = Clock::now();
  StopSignals signals_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<CheckpointReader> checkpoint_;
  ParameterSchedule schedule_;
  cpu::ProductChoice products_;
  GptConfig model_;
  MemoryPlan plan_;
  RankArenas arenas_;
  std::unique_ptr<Backend> backend_;
  Rank rank_;
  RunState state_;
  std::optional<RunData> data_;
  std::optional<RunData::Stream> train_stream_, valid_stream_;
  std::optional<RunReport> report_;
  std::int64_t saved_iteration_ = -1;
};

TrainConfig resolved(TrainConfig config) {
  resolve(config, true);
  return config;
}

Trainer::Trainer(TrainConfig config)
    : config_(resolved(std::move(config))),
      tokenizer_(run_tokenizer(config_)),
      checkpoint_(open_checkpoint(config_)),
      schedule_(checkpoint_ ? check_resume(config_, checkpoint_->manifest())
                            : parameter_schedule(config_)),
      products_(cpu::choose_products(checkpoint_
                                         ? resumed_precision(config_, checkpoint_->manifest())
                                         : config_.matmul_precision,
                                     config_.bf16, static_cast<int>(config_.threads_per_rank))),
      model_(gpt_config(config_, tokenizer_->vocab_size())),
      plan_(plan_memory(config_, model_, products_.products)),
      arenas_(allocate_arenas(plan_)),
      backend_(make_cpu_backend(static_cast<int>(config_.threads_per_rank), products_.products)),
      rank_(config_, model_, *backend_, arenas_) {
  if (checkpoint_) {
    state_ = load_run(config_, *checkpoint_, rank_);
    saved_iteration_ = config_.load == config_.save ? state_.iteration : -1;
    checkpoint_.reset();
  } else {
    rank_.initialise();
  }
  const SampleCounts needed = requested_samples(config_);
  // A resumed run keeps the order it began with.
  if (state_.requested == SampleCounts{}) state_.requested = needed;
  data_.emplace(config_, *tokenizer_, state_.requested);
  data_->check_suffices(needed);
  train_stream_.emplace(*data_, SplitKind::kTrain, state_.consumed_train_samples);
  if (data_->has(SplitKind::kValid)) {
    valid_stream_.emplace(*data_, SplitKind::kValid, state_.consumed_valid_samples);
  }
  report_.emplace(config_, model_, plan_, products_, *tokenizer_, state_.iteration);
}

// A training run.
RunEnd Trainer::run() {
  const std::int64_t iterations = train_iterations(config_);
  while (state_.iteration < iterations) {
    const auto begin = Clock::now();
    const StepResult step = train_step();
    report_->iteration(state_, step, schedule_.learning_rate(state_.schedule_samples),
                       seconds_since(begin), arenas_);

    if (config_.eval_interval > 0 && state_.iteration % config_.eval_interval == 0 &&
        state_.iteration < iterations) {
      evaluate(SplitKind::kValid, fmt::format("iteration {}", state_.iteration));
    }
    if (const auto end = exit_condition()) {
      save();
      return *end;
    }
    if (config_.save_interval > 0 && state_.iteration % config_.save_interval == 0) save();
  }
  save();
  final_evaluation();
  return RunEnd::kFinished;
}

StepResult Trainer::train_step() {
  const StepSchedule schedule{.lr = schedule_.learning_rate(state_.schedule_samples),
                              .weight_decay = schedule_.weight_decay(state_.schedule_samples),
                              .adam_step = state_.adam_step + 1};
  const StepResult step = rank_.train_step(schedule, train_stream_->source());
  if (step.skipped) {
    // Without a loss scale nothing can be lowered, and the same inputs give the same bits again.
    throw ErrorOf<ErrorCode::kDoNotRestart>(
        "iteration {}: the gradient norm is {} (loss {}); the weights of iteration {} stand, "
        "nothing was saved. Lower --lr, raise the warm-up or lower --clip-grad, and resume from "
        "the "
        "last checkpoint",
        state_.iteration + 1, step.grad_norm, step.loss, state_.iteration);
  }
  state_.iteration += 1;
  state_.adam_step += 1;
  state_.schedule_samples += config_.global_batch_size;
  state_.consumed_train_samples = train_stream_->consumed_samples();
  check_high_water(plan_, arenas_);
  return step;
}

void Trainer::evaluate(SplitKind kind, const std::string& place) {
  if (config_.eval_iters == 0 || !data_->has(kind)) return;
  std::optional<RunData::Stream> test_stream;
  if (kind == SplitKind::kTest) test_stream.emplace(*data_, kind, 0);
  RunData::Stream& stream = kind == SplitKind::kTest ? *test_stream : *valid_stream_;
  double sum = 0.0;
  double tokens = 0.0;
  for (std::int64_t i = 0; i < config_.eval_iters; ++i) {
    const StepResult step = rank_.evaluate(stream.source());
    sum += step.loss * step.tokens;
    tokens += step.tokens;
  }
  if (kind == SplitKind::kValid) state_.consumed_valid_samples = stream.consumed_samples();
  report_->evaluation(state_, kind, place, tokens > 0.0 ? sum / tokens : 0.0);
}

void Trainer::final_evaluation() {
  const std::string place = fmt::format("iteration {} on ", state_.iteration);
  evaluate(SplitKind::kValid, place + "validation set");
  evaluate(SplitKind::kTest, place + "test set");
}

void Trainer::save() {
  if (config_.save.empty() || saved_iteration_ == state_.iteration) return;
  report_->pause();
  save_run(config_, schedule_, state_, std::string(products_.name()), rank_);
  saved_iteration_ = state_.iteration;
}

std::optional<RunEnd> Trainer::exit_condition() {
  if (signals_.received() != 0) {
    report_->pause();
    log_info("exiting program after receiving {}.",
             signals_.received() == SIGINT ? "SIGINT" : "SIGTERM");
    if (!config_.save.empty()) return RunEnd::kPreempted;
    log_warning("nothing is saved: --save was not given");
    return RunEnd::kStopped;
  }
  const double minutes = seconds_since(start_) / 60.0;
  if (config_.exit_duration_in_mins > 0.0 && minutes > config_.exit_duration_in_mins) {
    report_->pause();
    log_info("exiting program after {} minutes", minutes);
    return RunEnd::kFinished;
  }
  if (config_.exit_interval > 0 && state_.iteration % config_.exit_interval == 0) {
    report_->pause();
    log_info("exiting program at iteration {}", state_.iteration);
    return RunEnd::kFinished;
  }
  return std::nullopt;
}

}  // namespace

RunEnd pretrain_gpt(TrainConfig config) { return Trainer(std::move(config)).run(); }

}  // namespace phalanx
