#pragma once
// What a rank's threads report about their work, and the heartbeat that is made from it. The
// member's thread sends the heartbeat.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/rendezvous/comm_place.h"
#include "phalanx/rendezvous/heartbeat.h"

namespace phalanx::rendezvous {

// All functions may be called by any thread.
class RankActivity {
 public:
  using Clock = std::chrono::steady_clock;

  void tick() noexcept { progress_.tick(); }
  Progress& progress() noexcept { return progress_; }
  void limit(std::optional<double> silence, std::optional<double> still);
  void limit_stillness(double seconds);
  void add_waited(Clock::duration time) noexcept {
    waited_.fetch_add(time.count(), std::memory_order_relaxed);
  }
  void begin_wait(const CommPlace& place, const std::vector<int>& missing);
  void end_wait() noexcept;
  // True if the rank was not busy before.
  bool begin_busy(std::string what);
  // True if the rank is no longer busy.
  bool end_busy() noexcept;
  void step(std::int64_t iteration) noexcept;

  Heartbeat heartbeat(Clock::time_point now) const;

 private:
  struct Wait {
    CommPlace place;
    std::vector<int> missing;
    int missing_count;
    Clock::time_point since;
  };

  Progress progress_{};
  std::atomic<Clock::rep> waited_{0};

  mutable std::mutex mutex_{};
  std::vector<Wait> waits_{};
  std::vector<std::string> busy_{};
  std::string last_busy_{};
  Progress::Files files_before_busy_{};  // when it became busy with last_busy_
  std::optional<double> silence_limit_{};
  std::optional<double> still_limit_{};
  std::int64_t iteration_ = -1;
  std::int64_t steps_ = 0;
  Clock::time_point last_step_{};  // the end of the last step, if any
  Clock::rep waited_at_first_step_ = 0;
  Clock::rep waited_at_last_step_ = 0;
  Clock::duration step_time_{};
};

}  // namespace phalanx::rendezvous
