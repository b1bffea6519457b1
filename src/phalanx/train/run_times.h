#pragma once
// The timers of a rank in a run. The first rank gathers those of all ranks.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {

// The times of one iteration in seconds: of this rank, and in `rows` of all ranks.
struct IterationTimes {
  double data = 0;
  double messages = 0;
  double files = 0;
  double saving = 0;    // since the last iteration
  double snapshot = 0;  // of the update, for a save under way
  std::vector<TimerRow> rows;
  // Whether a save has begun since the last iteration, or was under way in this one; and the bytes
  // of one that has begun.
  bool is_saving = false;
  std::optional<std::int64_t> save_bytes = {};
  // Of all ranks, of an iteration that is logged, by kMeasuredParts; where they are measured.
  std::vector<std::vector<double>> parts = {};
};

class RunTimes {
 public:
  // Constructed when the rank's model has just been built; `begin` is when this rank began. From
  // here on the rank's steps are timed.
  RunTimes(const RunSetup& setup, Rank& rank, StepTimers& timers,
           StepTimers::Clock::time_point begin);

  // Called by all ranks at the same time; only the first one gets rows.
  std::vector<TimerRow> of_setup();
  std::vector<TimerRow> of_save();

  StepTimers& timers() { return timers_; }
  // Called before and after the iterations that the pipeline runs in one go.
  void begin_iterations() { begin_ = timers_.times(); }
  void end_iterations(std::int64_t count);
  // The times of one of these iterations. Where it is logged, all ranks call at the same time.
  IterationTimes of_iteration(bool is_logged);

 private:
  // The means over `iterations` of what these timers have counted since they were last gathered.
  std::vector<TimerRow> gather(const std::vector<StepTimer>& wanted, std::int64_t iterations);

  const int log_level_;
  Rank& rank_;
  StepTimers& timers_;
  StepTimers::Times gathered_{};  // by the last gather of each timer
  StepTimers::Times begin_{};     // of the last iterations
  double saved_ = 0;              // seconds of saving until then
  double data_ = 0;               // of each iteration
  double messages_ = 0;
  double files_ = 0;
  double snapshot_ = 0;
  double saving_ = 0;
  std::int64_t iterations_ = 0;  // since the last rows
};

}  // namespace phalanx
