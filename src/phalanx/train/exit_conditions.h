#pragma once
// When a run leaves before its last iteration: signals, --exit-interval, --exit-duration-in-mins.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "phalanx/rank/rank.h"
#include "phalanx/train/run_end.h"
#include "phalanx/train/run_log.h"

namespace phalanx {

// Asked by all ranks at the same time. The answers are the same on all, and the log says why.
class ExitConditions {
 public:
  // All must outlive this. `start` is when this rank began. `settle` is called before the log says
  // why a run ends: it brings in what the log has still to say of iterations.
  ExitConditions(const RunConfig& run, const StopToken& stop, Rank& rank, RunLog& log,
                 std::chrono::steady_clock::time_point start, std::function<void()> settle)
      : run_(run), stop_(stop), rank_(rank), log_(log), start_(start), settle_(std::move(settle)) {}

  // Whether a signal came before the first step.
  bool stops_before_training(std::int64_t iteration);
  // How to leave because a signal came.
  std::optional<RunEnd> signal_after(std::int64_t iteration);
  // How to leave for any reason.
  std::optional<RunEnd> any_after(std::int64_t iteration);

 private:
  void note(RunNote::Kind kind, std::int64_t iteration, std::string text);
  RunEnd stop_by_signal(int signal, std::int64_t iteration);

  const RunConfig& run_;
  const StopToken& stop_;
  Rank& rank_;
  RunLog& log_;
  const std::chrono::steady_clock::time_point start_;
  const std::function<void()> settle_;
};

// "exiting program after receiving SIGTERM."
std::string signal_line(int signal);

}  // namespace phalanx
