#pragma once
// What a run tells people and scripts: the start-up table, Megatron's log lines, the progress bar,
// metrics.jsonl.

#include <cstdint>
#include <memory>
#include <string>

#include "phalanx/data/split.h"
#include "phalanx/observe/metrics_file.h"
#include "phalanx/observe/progress.h"
#include "phalanx/observe/training_log.h"
#include "phalanx/train/run_setup.h"

namespace phalanx {

class RunReport {
 public:
  // The first rank prints what the run is made of and what happens, and appends to
  // SAVE/metrics.jsonl as long as that can be written. Others are silent.
  RunReport(const RunSetup& setup, const MemoryPlan& plan, int rank, std::int64_t loaded_iteration);

  // After a step: `next_lr` is the schedule's next value, as Megatron prints it.
  void iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                 double next_lr, double seconds);
  void evaluation(const RunState& state, SplitKind kind, const std::string& place, double loss);
  // Takes the progress bar away before other lines.
  void pause();

 private:
  void print_start(const RunSetup& setup, const MemoryPlan& plan,
                   std::int64_t loaded_iteration) const;
  void print_line(const RunState& state, const StepResult& step, std::int64_t global_batch,
                  double next_lr);
  template <typename Metrics>
  void write_metrics(const Metrics& metrics);

  const TrainConfig& config_;
  const RunLength& length_;
  bool speaks_;              // the first rank
  std::int64_t peak_bytes_;  // of the arenas, the most of any rank
  double model_flops_per_token_;
  double peak_flops_;
  LogInterval interval_;
  std::unique_ptr<MetricsFile> metrics_;
  ProgressBar progress_;
};

// The rows of the plan, for people.
std::string memory_table(const MemoryPlan& plan);

}  // namespace phalanx
