#pragma once
// The training loop of one rank: step, count, log, evaluate, save, leave.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/saving/memory_snapshots.h"
#include "phalanx/saving/second_places.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/answers.h"
#include "phalanx/train/evaluations.h"
#include "phalanx/train/exit_conditions.h"
#include "phalanx/train/run_end.h"
#include "phalanx/train/run_log.h"
#include "phalanx/train/run_times.h"
#include "phalanx/train/skipped_steps.h"
#include "phalanx/train/step_parts.h"
#include "phalanx/train/step_trace.h"

namespace phalanx {

// One rank of a run with everything that it is made of, in the order in which that is made.
class Trainer {
 public:
  // `checkpoint` is what the run begins with, or null; it is not needed any more after this.
  // `sinks` are the first rank's; null on all others.
  Trainer(const RunSetup& setup, const CheckpointReader* checkpoint, const StopToken& stop,
          RunSinks* sinks, Communicator& world, RankWatch& watch);
  // An exception ends the world.
  RunEnd run();

 private:
  RunSaver::Listeners listeners();
  RunEnd loop();
  // Where the global batch changes: saves, as save_periodically().
  std::optional<RunEnd> change_batch();
  // How to leave, where a signal came meanwhile.
  std::optional<RunEnd> save_periodically();
  RunEnd save_and_leave(RunEnd end);
  void compare_replicas();

  // Iterations that have been enqueued, and whose numbers are on their way from a device.
  struct UnderWay {
    StepsUnderWay results;
    std::vector<StepSchedule> schedules;
    std::int64_t samples = 0;
    std::chrono::steady_clock::time_point begin;
    // As IterationTimes has them.
    bool is_saving = false;
    std::optional<std::int64_t> save_bytes;
  };

  // The last iteration that has been enqueued, and the samples until then.
  std::int64_t enqueued_iteration() const;
  std::int64_t enqueued_samples() const;
  bool is_left_out(std::int64_t iteration) const;
  void leave_out_iteration();
  void train_until_drained();
  std::vector<StepSchedule> next_schedules() const;
  // Waits for the numbers of what is under way, counts and logs them. By all ranks at the same
  // time, between programs.
  void settle();
  // The same within a program, before its updates: whether these may be made. Where a step was not
  // made and no loss scale explains it they may not, and explain_failure() follows.
  bool settle_before_updates();
  // When the run has failed: what was under way may have come to its end.
  void settle_quietly() noexcept;
  void take_in(UnderWay done, std::span<const StepResult> steps);
  // Whether a step was not made on some rank, and no loss scale explains it.
  bool has_failed(std::span<const StepResult> steps);
  // Finds out where that began, and throws. `next_has_run`: its passes, without an update.
  [[noreturn]] void explain_failure(const UnderWay& failed, std::span<const StepResult> steps,
                                    bool next_has_run);
  void count(const StepResult& step, std::int64_t global_batch);
  // Of all ranks, on the first one, since the last call; nothing where they are not measured. By
  // all ranks at the same time.
  std::vector<std::vector<double>> measured_parts();

  // How to leave after an evaluation was given up.
  RunEnd end_of_given_up_evaluation();
  // At the end of a run. Throws where no step of it was made.
  void expect_trained() const;
  RunEnd skip_training();
  // The last step's passes are timed for --trace and for what --save keeps of the run.
  bool is_traced() const { return !config_.run.trace.empty() || !config_.run.save.empty(); }
  void reserve_trace();
  // What the first rank tells about the last step. By all ranks at the same time.
  std::string last_step();

  const RunSetup& setup_;
  const TrainConfig& config_;
  RankWatch& watch_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  StepTimers timers_;
  RankCommunicators ranks_;
  const MemoryPlan& plan_;
  std::unique_ptr<ArenaMemory> memory_;  // of the arenas; null: the host's
  std::unique_ptr<Backend> backend_;
  RankArenas arenas_;
  HighWaterCheck high_water_;
  Rank rank_;
  LossScaler scaler_;
  SkippedSteps skipped_;
  RunState state_;
  // After this iteration all ranks that have a copy of a weight had the same bits of it: when the
  // run began, or at a comparison of --check-weight-hash-across-dp-replicas-interval.
  std::int64_t ranks_are_same_;
  std::vector<std::int64_t> left_out_;  // --iterations-to-skip
  RunTimes times_;
  std::unique_ptr<RunData::Stream> train_stream_;
  RunLog log_;
  std::optional<StepParts> parts_;  // with --cluster
  // Whether the host enqueues an iteration before it knows the numbers of the one before.
  const bool runs_ahead_;
  std::optional<UnderWay> under_way_;
  std::optional<std::vector<StepResult>> failed_;  // of what is under way
  std::chrono::steady_clock::time_point settled_;  // the last time
  Evaluations evaluations_;
  Answers answers_;
  ExitConditions exits_;
  StepTrace trace_;
  RunSaver saver_;
  SecondPlaces second_places_;
  MemorySnapshots snapshots_;
};

}  // namespace phalanx
