#pragma once
// The stop signals of a process that works itself (a run, a long command), caught by handlers.
// (`phalanx launch`, which starts ranks, reads its signals from a descriptor instead:
// launch/signal_inbox.h.)
//
// SIGINT, SIGTERM, SIGHUP (the terminal is closed) and a chosen signal ask the run to save its
// state and leave as soon as it can. A SIGHUP that the process was started to ignore (nohup) stays
// ignored. The first SIGINT prints a line that says so. A second one, at least a second later
// (terminals and launchers double them), ends the process at once with 130, unless a launcher
// started it. Other repeated signals change nothing.

#include <array>
#include <csignal>
#include <string_view>

#include "phalanx/cli/command_io.h"

namespace phalanx {

// Its handlers are installed while it lives; only one object at a time.
class StopSignals final : public StopRequests {
 public:
  // For a run. `saves`: whether there is a --save, for the line. `also`: the chosen signal.
  explicit StopSignals(bool saves, int also = SIGTERM);
  // For another command. `line`: what the first SIGINT prints; it must outlive the object.
  explicit StopSignals(const char* line);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() override;

  int received() const override;

 private:
  void install(const char* line, bool is_alone);
  std::array<int, 4> signals_;
  std::array<struct sigaction, 4> before_;
};

// To be called first by a program: from now on SIGINT, SIGTERM and SIGHUP do not end the process,
// but wait for the first StopSignals.
void hold_stop_signals();

// The number of a signal such as "SIGUSR1". ConfigError for one that a run does not listen to.
int signal_number(std::string_view name);

}  // namespace phalanx
