#pragma once
// The measured timeline of a run's last step: when each pass of this rank ran, and pictures of all
// ranks of a pipeline that compare the measurement with a simulation.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/pipeline/executor.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/timelines/run_timeline.h"

namespace phalanx {

struct RunSetup;

class StepTrace final : public PassObserver {
 public:
  // Steps must not allocate: takes the memory beforehand.
  void reserve(std::size_t passes) { passes_.reserve(passes); }
  void clear() { passes_.clear(); }
  void begin(const Action& pass) override;
  void end(const Action& pass) override;
  // In milliseconds of the host's clock.
  const std::vector<TimedAction>& passes() const { return passes_; }

 private:
  std::vector<TimedAction> passes_;
};

// Called by all ranks at the same time. The ranks of the first pipeline send their timelines to the
// first rank of the world; only that rank gets the step. Nothing where nothing was trained.
std::optional<MeasuredStep> gather_step(const RunSetup& setup, const StepTrace& trace,
                                        const RankCommunicators& ranks, Context& context);
// --trace FILE.json (Chrome's format), FILE.svg and FILE.txt.
void write_step_trace(const std::string& path, const MeasuredStep& step);

}  // namespace phalanx
