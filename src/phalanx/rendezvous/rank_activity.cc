#include "phalanx/rendezvous/rank_activity.h"

#include <fmt/core.h>

#include <algorithm>

namespace phalanx::rendezvous {
namespace {

std::string moved_text(std::int64_t bytes, std::int64_t files) {
  if (bytes <= 0) return "";
  const double megabytes = static_cast<double>(bytes) / 1e6;
  const std::string text = megabytes < 1000 ? fmt::format("{:.1f} MB", megabytes)
                                            : fmt::format("{:.1f} GB", megabytes / 1000);
  return files > 0 ? fmt::format("{}, {} file{}", text, files, files == 1 ? "" : "s") : text;
}

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void RankActivity::limit(std::optional<double> silence, std::optional<double> still) {
  const std::lock_guard lock(mutex_);
  silence_limit_ = silence;
  still_limit_ = still;
}

void RankActivity::limit_stillness(double seconds) {
  const std::lock_guard lock(mutex_);
  still_limit_ = seconds;
}

void RankActivity::begin_wait(const CommPlace& place, const std::vector<int>& missing) {
  const std::size_t count = std::min(missing.size(), Heartbeat::kMostMissing);
  Wait wait{place,
            {missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(count)},
            static_cast<int>(missing.size()),
            Clock::now()};
  const std::lock_guard lock(mutex_);
  waits_.push_back(std::move(wait));
}

void RankActivity::end_wait() noexcept {
  const std::lock_guard lock(mutex_);
  if (!waits_.empty()) waits_.pop_back();
}

bool RankActivity::begin_busy(std::string what) {
  const std::lock_guard lock(mutex_);
  // A rank may wait for others in between: the same work goes on from its first begin.
  if (busy_.empty() && what != last_busy_) {
    last_busy_ = what;
    files_before_busy_ = progress_.files();
  }
  busy_.push_back(std::move(what));
  return busy_.size() == 1;
}

bool RankActivity::end_busy() noexcept {
  const std::lock_guard lock(mutex_);
  if (!busy_.empty()) busy_.pop_back();
  return busy_.empty();
}

void RankActivity::step(std::int64_t iteration) noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::rep waited = waited_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (iteration_ < 0) {
    waited_at_first_step_ = waited;
  } else {
    step_time_ += now - last_step_;
    ++steps_;
  }
  last_step_ = now;
  waited_at_last_step_ = waited;
  iteration_ = iteration;
}

Heartbeat RankActivity::heartbeat(Clock::time_point now) const {
  Heartbeat heartbeat;
  heartbeat.ticks = progress_.ticks();
  Progress::Files files = progress_.files();
  heartbeat.access = std::move(files.access);
  const std::lock_guard lock(mutex_);
  heartbeat.silence_limit = silence_limit_;
  heartbeat.still_limit = still_limit_;
  heartbeat.iteration = iteration_;
  heartbeat.steps = steps_;
  heartbeat.step_seconds = seconds_of(step_time_);
  heartbeat.waited_seconds =
      seconds_of(Clock::duration(waited_at_last_step_ - waited_at_first_step_));
  // The last one that began is what the rank does now.
  if (!busy_.empty()) {
    heartbeat.busy = busy_.back();
    heartbeat.busy_progress =
        moved_text(files.bytes - files_before_busy_.bytes, files.files - files_before_busy_.files);
  }
  if (!waits_.empty()) {
    const Wait& wait = waits_.back();
    heartbeat.wait = Heartbeat::Wait{wait.place, wait.missing,
                                     seconds_of(std::max(now - wait.since, Clock::duration{})),
                                     wait.missing_count};
  }
  return heartbeat;
}

}  // namespace phalanx::rendezvous
