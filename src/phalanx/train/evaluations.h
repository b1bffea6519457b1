#pragma once
// The evaluations of a run, at intervals and at its end.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/start/run_setup.h"
#include "phalanx/train/run_end.h"
#include "phalanx/train/run_log.h"

namespace phalanx {

class Evaluations {
 public:
  // All must outlive this. `state` is that of the run, which counts the samples.
  Evaluations(const RunSetup& setup, const StopToken& stop, Rank& rank, HighWaterCheck& high_water,
              RunState& state, RunLog& log);

  // Both are false where a signal gave the evaluation up: then it leaves no trace.

  // Of the validation data. One that was given up is due first when the run is resumed.
  bool at_interval();
  // Of the validation data and the test data.
  bool at_end();

 private:
  struct SetResult {
    std::vector<double> losses;  // means
    std::vector<double> counts;  // of the family's EvaluationScores
  };
  bool goes_on(SplitKind kind) const {
    return kind == SplitKind::kValid && !setup_.data->is_read_whole(kind);
  }
  bool evaluate(SplitKind kind, const std::string& place);
  std::optional<SetResult> evaluate_set(SplitKind kind, std::size_t set);

  const RunSetup& setup_;
  const StopToken& stop_;
  Rank& rank_;
  HighWaterCheck& high_water_;
  RunState& state_;
  RunLog& log_;
  // Of the only set, where every evaluation goes on after the one before it.
  std::unique_ptr<RunData::Stream> valid_stream_;
};

}  // namespace phalanx
