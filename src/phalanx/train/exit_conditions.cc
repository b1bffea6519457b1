#include "phalanx/train/exit_conditions.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

namespace phalanx {

std::string signal_line(int signal) {
  if (signal == kAskedByProgram) return "ending the run: the program asked for it.";
  const char* const name = ::sigabbrev_np(signal);
  return fmt::format("exiting program after receiving {}.", name != nullptr
                                                                ? fmt::format("SIG{}", name)
                                                                : fmt::format("signal {}", signal));
}

bool ExitConditions::stops_before_training(std::int64_t iteration) {
  const int signal = rank_.largest_of_all(stop_());
  if (signal == 0) return false;
  note(RunNote::Kind::kSignal, iteration, signal_line(signal));
  note(RunNote::Kind::kExit, iteration, kNothingIsLost);
  return true;
}

std::optional<RunEnd> ExitConditions::signal_after(std::int64_t iteration) {
  const int signal = rank_.largest_of_all(stop_());
  if (signal == 0) return std::nullopt;
  return stop_by_signal(signal, iteration);
}

std::optional<RunEnd> ExitConditions::any_after(std::int64_t iteration) {
  // Signals and clocks reach ranks at different moments: the largest reason of any rank holds for
  // all.
  constexpr int kNone = 0;
  constexpr int kDuration = 1;
  constexpr int kSignals = 2;  // plus the signal's number
  const double minutes =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() / 60.0;
  int reason = kNone;
  if (run_.exit_duration_in_mins > 0.0 && minutes > run_.exit_duration_in_mins) reason = kDuration;
  if (const int signal = stop_(); signal != 0) reason = kSignals + signal;
  reason = rank_.largest_of_all(reason);
  const bool at_interval = run_.exit_interval > 0 && iteration % run_.exit_interval == 0;
  if (reason == kNone && !at_interval) return std::nullopt;
  settle_();
  if (reason >= kSignals) return stop_by_signal(reason - kSignals, iteration);
  note(RunNote::Kind::kExit, iteration,
       reason == kDuration ? fmt::format("exiting program after {} minutes", minutes)
                           : fmt::format("exiting program at iteration {}", iteration));
  return RunEnd::kFinished;
}

void ExitConditions::note(RunNote::Kind kind, std::int64_t iteration, std::string text) {
  log_.note({kind, iteration, std::move(text)});
}

RunEnd ExitConditions::stop_by_signal(int signal, std::int64_t iteration) {
  note(RunNote::Kind::kSignal, iteration, signal_line(signal));
  if (!run_.save.empty()) return RunEnd::kPreempted;
  note(RunNote::Kind::kWarning, iteration, "nothing is saved: --save was not given");
  return RunEnd::kStopped;
}

}  // namespace phalanx
