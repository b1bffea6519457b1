#pragma once
// What the first rank tells the sinks of a run: from where it is and what its steps came to.

#include <cstdint>
#include <string>

#include "phalanx/data/split.h"
#include "phalanx/observe/run_sink.h"
#include "phalanx/train/run_setup.h"

namespace phalanx {

class RunReport {
 public:
  // `sinks` is null on all ranks but the first, which are silent.
  RunReport(const RunSetup& setup, const MemoryPlan& plan, const RunPosition& begin,
            RunSinks* sinks);

  // After a step: `next` are the schedule's next values, as Megatron prints them.
  void iteration(const RunState& state, const StepResult& step, std::int64_t global_batch,
                 const LearningRates& next, double seconds);
  void evaluation(const RunState& state, SplitKind kind, const std::string& place, double loss);
  void note(RunNote::Kind kind, std::int64_t iteration, std::string text);
  void end(const RunEnding& ending);

 private:
  const TrainConfig& config_;
  RunSinks* sinks_;
  std::int64_t peak_bytes_;  // of the arenas, the most of any rank
  double model_flops_per_token_;
};

// The rows of the plan, for people.
std::string memory_table(const MemoryPlan& plan);

}  // namespace phalanx
