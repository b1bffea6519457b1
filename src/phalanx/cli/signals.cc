#include "phalanx/cli/signals.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx {
namespace {

constexpr int kEndedAtOnce = 130;
constexpr std::int64_t kSecond = 1'000'000'000;  // ns

constexpr const char* kSaving =
    "SIGINT: finishing this step, saving, then leaving; press Ctrl-C again to end at once (the "
    "state since the last checkpoint is lost)\n";
constexpr const char* kNotSaving =
    "SIGINT: finishing this step, then leaving; nothing is saved, for --save was not given; press "
    "Ctrl-C again to end at once\n";
constexpr const char* kLaunchedSaving =
    "SIGINT: finishing this step, saving, then leaving; whoever started the ranks ends them at "
    "once\n";
constexpr const char* kLaunchedNotSaving =
    "SIGINT: finishing this step, then leaving; nothing is saved, for --save was not given\n";
constexpr const char* kAgain = "SIGINT again: ended at once\n";

// A handler can use static storage only.
std::atomic<int> received_signal{0};
std::atomic<std::int64_t> first_interrupt{0};  // ns; 0: none came
std::atomic<const char*> first_line{nullptr};  // what it prints; null: nothing
std::atomic<bool> second_ends{false};
std::atomic<bool> is_held{false};  // signals that came before the first StopSignals count
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

// Does not wait for a terminal that is held (Ctrl-S) or a pipe that nobody reads: it would hold the
// thread that got the signal.
void write_line(const char* line) {
  pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, std::strlen(line));
}

void on_interrupt() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = time.tv_sec * kSecond + time.tv_nsec + 1;  // never 0
  std::int64_t first = 0;
  if (first_interrupt.compare_exchange_strong(first, now)) {
    if (const char* line = first_line.load()) write_line(line);
    return;
  }
  if (!second_ends.load() || now - first < kSecond) return;
  write_line(kAgain);
  ::_exit(kEndedAtOnce);
}

// Calls only functions that POSIX allows in a handler.
void on_signal(int number) {
  const int error = errno;
  int none = 0;
  received_signal.compare_exchange_strong(none, number);
  if (number == SIGINT) on_interrupt();
  errno = error;
}

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

// nohup: who started the process wants it to outlive the terminal.
bool is_ignored_hangup(int signal) {
  struct sigaction now {};
  return signal == SIGHUP && ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(bool saves, int also) : signals_{SIGINT, SIGTERM, SIGHUP, also} {
  const std::optional<int> rank = launched_rank();
  const char* alone = saves ? kSaving : kNotSaving;
  const char* launched = saves ? kLaunchedSaving : kLaunchedNotSaving;
  install(!rank ? alone : *rank == 0 ? launched : nullptr, !rank);
}

StopSignals::StopSignals(const char* line) : signals_{SIGINT, SIGTERM, SIGHUP, SIGTERM} {
  install(line, true);
}

void StopSignals::install(const char* line, bool is_alone) {
  if (!is_held.exchange(false)) received_signal.store(0);
  first_interrupt.store(0);
  first_line.store(line);
  second_ends.store(is_alone);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    ::sigaction(signals_[i], nullptr, &before_[i]);
    // The last one was chosen.
    if (i + 1 < signals_.size() && is_ignored_hangup(signals_[i])) continue;
    ::sigaction(signals_[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  // Backwards: a signal that is listed twice has the original handler in its first place.
  for (std::size_t i = signals_.size(); i-- > 0;) {
    ::sigaction(signals_[i], &before_[i], nullptr);
  }
}

void hold_stop_signals() {
  is_held.store(true);
  received_signal.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kStopSignals) {
    if (!is_ignored_hangup(signal)) ::sigaction(signal, &action, nullptr);
  }
}

int signal_number(std::string_view name) {
  constexpr std::array kNames = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGALRM, SIGXCPU};
  const auto found = std::ranges::find_if(kNames, [&](int number) {
    return name.starts_with("SIG") && name.substr(3) == ::sigabbrev_np(number);
  });
  if (found == kNames.end()) throw ConfigError("{} is no signal that a run can listen to", name);
  return *found;
}

int StopSignals::received() const { return received_signal.load(); }

}  // namespace phalanx
