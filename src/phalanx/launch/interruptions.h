#pragma once
// What a signal to the launcher means: the first one asks the run to save and leave, a second
// Ctrl-C at least a second later ends it at once. It has no clock. signal_inbox.h receives the
// signals.

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace phalanx::launch {

enum class Interruption : std::uint8_t {
  kStop,       // save and leave
  kEndAtOnce,  // a second Ctrl-C
  kStacks,     // SIGQUIT: the ranks print where they are, and go on
  kPause,      // Ctrl-Z
  kContinue,
};

class Interruptions {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Interruptions(const std::vector<int>& stop_signals)
      : stop_signals_(stop_signals.begin(), stop_signals.end()) {}

  // The signals to watch.
  std::vector<int> signals() const;
  // What to do; empty: nothing.
  std::optional<Interruption> on_signal(int signal, Clock::time_point now);

  bool asked_to_stop() const { return first_signal_ != 0; }
  // What the ranks are sent: SIGINT for Ctrl-C, else SIGTERM.
  int signal_for_ranks() const;
  int first_signal() const { return first_signal_; }

 private:
  std::set<int> stop_signals_;
  int first_signal_ = 0;
  std::optional<Clock::time_point> first_interrupt_;
};

}  // namespace phalanx::launch
