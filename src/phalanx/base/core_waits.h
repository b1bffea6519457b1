#pragma once
// How long threads had work and no core.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

namespace phalanx {

// The time in which these threads of this process were ready to run while their cores ran others,
// since each began. nullopt where the kernel does not count it. `root` is / except in tests.
std::optional<std::chrono::nanoseconds> waited_for_cores(std::span<const int> threads,
                                                         const std::filesystem::path& root = "/");

// Notices that the threads of a rank wait for cores that others use.
class CoreWaits {
 public:
  using Clock = std::chrono::steady_clock;
  using Reader = std::function<std::optional<std::chrono::nanoseconds>()>;

  // After a step of `threads` threads. The share of their time that they waited, once: when it was
  // above a tenth for some steps and seconds. `read` says how long they have waited so far; it is
  // called once in some seconds.
  std::optional<double> after_step(Clock::time_point now, int threads, const Reader& read);

 private:
  struct Mark {
    Clock::time_point time;
    std::chrono::nanoseconds waited;
  };
  std::optional<Mark> begin_;  // of the steps that are looked at together
  int steps_ = 0;
  bool told_ = false;
};

}  // namespace phalanx
