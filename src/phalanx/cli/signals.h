#pragma once
// SIGINT, SIGTERM and one that is chosen ask the run to leave as soon as it can with its state
// saved. The first SIGINT says so in a line; a second one, at least a second later (terminals and
// launchers double them), ends a process that no launcher started at once with 130. The others
// change nothing when they come again.

#include <array>
#include <csignal>
#include <string_view>

namespace phalanx {

// Handlers while the object lives; one at a time.
class StopSignals {
 public:
  // `saves`: whether there is a --save, for the line. `also`: the chosen signal.
  explicit StopSignals(bool saves, int also = SIGTERM);
  // Of a command that is no run: `line` is what the first SIGINT says. It must outlive the object.
  explicit StopSignals(const char* line);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // The first signal that arrived, or 0.
  int received() const;

 private:
  void install(const char* line, bool is_alone);
  std::array<int, 3> signals_;
  std::array<struct sigaction, 3> before_;
};

// For the first thing that a program does: SIGINT and SIGTERM that come from here on wait for the
// first StopSignals instead of ending the process.
void hold_stop_signals();

// Of a name such as SIGUSR1. ConfigError for one that a run does not listen to.
int signal_number(std::string_view name);

}  // namespace phalanx
