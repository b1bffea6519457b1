#pragma once
// A rank's timers in a run, and those of all ranks on the first one.

#include <chrono>
#include <cstdint>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {

// Of one iteration, in seconds: on this rank, and with its rows of all ranks.
struct IterationTimes {
  double data = 0;
  double messages = 0;
  double files = 0;
  double saving = 0;  // since the last iteration
  std::vector<TimerRow> rows;
};

class RunTimes {
 public:
  // The rank's model is there since now; `begin` is when this rank began. Its steps count from here
  // on.
  RunTimes(const RunSetup& setup, Rank& rank, StepTimers& timers,
           StepTimers::Clock::time_point begin);

  // By all ranks at the same time; rows are the first one's.
  std::vector<TimerRow> of_setup();
  std::vector<TimerRow> of_save();

  StepTimers& timers() { return timers_; }
  // Around what the pipeline runs in one go.
  void begin_iterations() { begin_ = timers_.times(); }
  void end_iterations(std::int64_t count);
  // Of one of these. Where it is logged, by all ranks at the same time.
  IterationTimes of_iteration(bool is_logged);

 private:
  // What these have counted since they were last asked for, over `iterations`.
  std::vector<TimerRow> gather(const std::vector<StepTimer>& wanted, std::int64_t iterations);

  const int log_level_;
  Rank& rank_;
  StepTimers& timers_;
  StepTimers::Times gathered_{};  // by the last gather of each timer
  StepTimers::Times begin_{};     // of the last iterations
  double saved_ = 0;              // until then
  double data_ = 0;               // of each of these
  double messages_ = 0;
  double files_ = 0;
  double saving_ = 0;
  std::int64_t iterations_ = 0;  // since the last rows
};

}  // namespace phalanx
