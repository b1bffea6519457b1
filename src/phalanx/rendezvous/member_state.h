#pragma once
// What a rank's threads tell its member's thread, which says it to the coordinator every half
// second. Without the connection.

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
#include "phalanx/rendezvous/detector.h"

namespace phalanx::rendezvous {

// Each call from any thread.
class MemberState {
 public:
  using Clock = std::chrono::steady_clock;

  void tick() noexcept { progress_.tick(); }
  Progress& progress() noexcept { return progress_; }
  void limit(std::optional<double> silence, std::optional<double> still);
  void limit_stillness(double seconds);
  void add_waited(Clock::duration time) noexcept {
    waited_.fetch_add(time.count(), std::memory_order_relaxed);
  }
  void begin_wait(const CommPlace& at, const std::vector<int>& missing);
  void end_wait() noexcept;
  // Whether it was not busy before, or is not now.
  bool begin_busy(std::string what);
  bool end_busy() noexcept;
  void step(std::int64_t iteration) noexcept;

  Heartbeat heartbeat(Clock::time_point now) const;

 private:
  struct Wait {
    CommPlace at;
    std::vector<int> missing;
    Clock::time_point since;
  };

  Progress progress_{};
  std::atomic<Clock::rep> waited_{0};

  mutable std::mutex mutex_{};
  std::vector<Wait> waits_{};
  std::vector<std::string> busy_{};
  std::string last_busy_{};
  Progress::Files at_busy_{};  // when it became busy with that
  std::optional<double> silence_limit_{};
  std::optional<double> still_limit_{};
  std::int64_t iteration_ = -1;
  std::int64_t steps_ = 0;
  Clock::time_point last_step_{};  // where there was one
  Clock::rep waited_at_first_ = 0;
  Clock::rep waited_at_last_ = 0;
  Clock::duration stepped_{};
};

}  // namespace phalanx::rendezvous
