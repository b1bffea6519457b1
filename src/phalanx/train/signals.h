#pragma once
// SIGINT and SIGTERM ask the run to finish its step, save and leave; a second one ends it at once.

namespace phalanx {

// Handlers while the object lives; one at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // The signal that arrived, or 0.
  int received() const;
};

}  // namespace phalanx
