#include "phalanx/base/core_waits.h"

#include <fmt/core.h>

#include <cstdint>
#include <fstream>
#include <utility>

namespace phalanx {

std::optional<std::chrono::nanoseconds> waited_for_cores(std::span<const int> threads,
                                                         const std::filesystem::path& root) {
  std::int64_t sum = 0;
  for (const int thread : threads) {
    // Time on a core, time ready without one (both ns), times that it got one.
    std::ifstream file(root / fmt::format("proc/self/task/{}/schedstat", thread));
    std::int64_t ran = 0, waited = 0;
    if (!(file >> ran >> waited)) return std::nullopt;
    sum += waited;
  }
  return std::chrono::nanoseconds(sum);
}

std::optional<double> CoreWaits::after_step(Clock::time_point now, int threads,
                                            const Reader& read) {
  constexpr double kMuch = 0.1;
  constexpr std::chrono::seconds kLong(5);
  constexpr int kSteps = 10;
  if (told_) return std::nullopt;
  // Before the first step threads were started and memory was taken.
  if (begin_ && (++steps_ < kSteps || now - begin_->time < kLong)) return std::nullopt;
  const auto waited = read();
  if (!waited) return std::nullopt;
  const std::optional<Mark> begin = std::exchange(begin_, Mark{now, *waited});
  steps_ = 0;
  if (!begin) return std::nullopt;
  const std::chrono::duration<double> all = (now - begin->time) * threads;
  const double share = std::chrono::duration<double>(*waited - begin->waited) / all;
  told_ = share >= kMuch;
  return told_ ? std::optional(share) : std::nullopt;
}

}  // namespace phalanx
