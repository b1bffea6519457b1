#include "phalanx/comm/rendezvous/member_state.h"

#include <algorithm>

namespace phalanx::rendezvous {
namespace {

// Of the ranks that are waited for: a heartbeat stays small however many there are.
constexpr std::size_t kMostMissing = 64;

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void MemberState::begin_wait(const CommPlace& at, const std::vector<int>& missing) {
  const std::size_t count = std::min(missing.size(), kMostMissing);
  Wait wait{
      at, {missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(count)}, Clock::now()};
  const std::lock_guard lock(mutex_);
  waits_.push_back(std::move(wait));
}

void MemberState::end_wait() noexcept {
  const std::lock_guard lock(mutex_);
  if (!waits_.empty()) waits_.pop_back();
}

bool MemberState::begin_busy(std::string what) {
  const std::lock_guard lock(mutex_);
  busy_.push_back(std::move(what));
  return busy_.size() == 1;
}

bool MemberState::end_busy() noexcept {
  const std::lock_guard lock(mutex_);
  if (!busy_.empty()) busy_.pop_back();
  return busy_.empty();
}

void MemberState::step(std::int64_t iteration) noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::rep waited = waited_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (iteration_ < 0) {
    waited_at_first_ = waited;
  } else {
    stepped_ += now - last_step_;
    ++steps_;
  }
  last_step_ = now;
  waited_at_last_ = waited;
  iteration_ = iteration;
}

Heartbeat MemberState::heartbeat(Clock::time_point now) const {
  Heartbeat heartbeat;
  heartbeat.ticks = ticks_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  heartbeat.iteration = iteration_;
  heartbeat.steps = steps_;
  heartbeat.step_seconds = seconds_of(stepped_);
  heartbeat.waited_seconds = seconds_of(Clock::duration(waited_at_last_ - waited_at_first_));
  // What began last is what it does now.
  if (!busy_.empty()) heartbeat.busy = busy_.back();
  if (!waits_.empty()) {
    const Wait& wait = waits_.back();
    heartbeat.wait = Heartbeat::Wait{wait.at, wait.missing,
                                     seconds_of(std::max(now - wait.since, Clock::duration{}))};
  }
  return heartbeat;
}

}  // namespace phalanx::rendezvous
