#pragma once
// What the first rank tells the sinks of a run, put together from the run's setup, its counters and
// the results of its steps.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/core_waits.h"
#include "phalanx/data/split.h"
#include "phalanx/drawing/series.h"
#include "phalanx/families/evaluation_scores.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/forecasting.h"
#include "phalanx/train/run_times.h"
#include "phalanx/train/step_comparison.h"

namespace phalanx {

class RunLog {
 public:
  // `sinks` is null on all ranks but the first: these say nothing. `times`: of the preparation.
  RunLog(const RunSetup& setup, const MemoryPlan& plan, const RunState& begin, RunSinks* sinks,
         std::span<const TimerRow> times = {});

  // All calls throw DirectoryLostError where --save is not this run's directory any more.

  // After a step: `next` are the schedule's next values, as Megatron prints them.
  void iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                 const LearningRates& next, double seconds, IterationTimes times = {});
  // `set`: the name of one of several validation sets; `counts`: those of EvaluationScores.
  void evaluation(const RunState& state, SplitKind kind, const std::string& set,
                  const std::string& place, std::span<const double> losses,
                  std::span<const double> counts);
  void answers(const AnswersReport& report);
  void note(const RunNote& note);
  // The parts of the steps since the last logged iteration, as IterationTimes has them.
  void parts(const std::vector<std::vector<double>>& of_ranks) {
    if (sinks_ != nullptr && comparison_) comparison_->take_parts(of_ranks);
  }
  void end(RunEnding ending);

 private:
  void note_disk(std::int64_t iteration);
  void note_core_waits(std::int64_t iteration);
  void write_device_file(const IterationReport& report);
  void expect_own_directory() const;
  std::vector<NamedLoss> named(std::span<const double> means) const;

  const TrainConfig& config_;
  const std::optional<DirectoryLock>& lock_;
  RunSinks* sinks_;
  std::int64_t peak_bytes_;  // of the arenas, the most of any rank
  std::vector<LossSpec> losses_;
  std::vector<AuxiliaryLossSpec> auxiliary_losses_;
  std::shared_ptr<const EvaluationScores> scores_;
  struct Sample {
    double tokens = 0;          // without padding, where documents are packed
    double model_flops = 0;     // of these tokens
    double hardware_flops = 0;  // of all rows
  };
  static Sample mean_sample(const RunSetup& setup);
  Sample sample_;
  std::optional<DiskStep> disk_;              // as planned
  std::optional<StepComparison> comparison_;  // with --cluster
  std::optional<DeviceFile> device_file_;     // --write-device-file
  CoreWaits core_waits_;
  // Measured, by iteration:
  static constexpr std::size_t kBins = 256;
  Series step_seconds_{kBins};
  Series file_seconds_{kBins};  // that this rank waited
};

// Whether the iteration has a line in the log.
bool is_logged(const RunConfig& run, std::int64_t iteration);

}  // namespace phalanx
