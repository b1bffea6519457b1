#include "phalanx/train/signals.h"

#include <atomic>
#include <csignal>

namespace phalanx {
namespace {

// A handler can reach nothing but static storage.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  received_signal.store(number);
  std::signal(number, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal.store(0);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignals::received() const { return received_signal.load(); }

}  // namespace phalanx
