#pragma once
// SIGINT and SIGTERM ask the run to leave as soon as it can with its state saved. The first SIGINT
// says so in a line; a second one, at least a second later (terminals and launchers double them),
// ends a process that no launcher started at once with 130. Further SIGTERMs change nothing.

#include <array>
#include <csignal>

namespace phalanx {

// Handlers while the object lives; one at a time.
class StopSignals {
 public:
  // `saves`: whether there is a --save, for the line.
  explicit StopSignals(bool saves);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // The first signal that arrived, or 0.
  int received() const;

 private:
  std::array<struct sigaction, 2> before_;
};

}  // namespace phalanx
