#include "phalanx/launch/interruptions.h"

#include <csignal>

namespace phalanx::launch {
namespace {

// A SIGINT that comes earlier counts as the first one, which terminals and wrappers double.
constexpr auto kSecondCounts = std::chrono::seconds(1);

}  // namespace

std::vector<int> Interruptions::signals() const {
  std::set<int> all = stop_signals_;
  all.insert({SIGQUIT, SIGTSTP, SIGCONT});
  return {all.begin(), all.end()};
}

std::optional<Interruption> Interruptions::on_signal(int signal, Clock::time_point now) {
  if (signal == SIGTSTP) return Interruption::kPause;
  if (signal == SIGCONT) return Interruption::kContinue;
  if (!stop_signals_.contains(signal)) {
    return signal == SIGQUIT ? std::optional(Interruption::kStacks) : std::nullopt;
  }
  const bool is_first = first_signal_ == 0;
  if (is_first) first_signal_ = signal;
  if (signal == SIGINT) {
    if (first_interrupt_ && now - *first_interrupt_ >= kSecondCounts) {
      return Interruption::kEndAtOnce;
    }
    if (!first_interrupt_) first_interrupt_ = now;
  }
  return is_first ? std::optional(Interruption::kStop) : std::nullopt;
}

int Interruptions::signal_for_ranks() const { return first_signal_ == SIGINT ? SIGINT : SIGTERM; }

}  // namespace phalanx::launch
