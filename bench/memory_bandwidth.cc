#include "memory_bandwidth.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace phalanx::bench {
namespace {

constexpr std::size_t kTotalFloats = (std::size_t{1} << 30) / sizeof(float);
constexpr int kRounds = 5;

void increment(std::vector<float>& values) {
  for (float& value : values) value += 1.0F;
}

}  // namespace

double measure_bandwidth(int threads) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks;
  const auto note = [&marks]() noexcept { marks.push_back(Clock::now()); };
  marks.reserve(kRounds + 1);
  std::barrier barrier(threads, note);
  const auto work = [&barrier, threads] {
    // Each thread touches its own part first, so that it is near the thread.
    std::vector<float> part(kTotalFloats / static_cast<std::size_t>(threads));
    barrier.arrive_and_wait();
    for (int round = 0; round < kRounds; ++round) {
      increment(part);
      barrier.arrive_and_wait();
    }
  };
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < threads; ++i) team.emplace_back(work);
  }
  auto best = Clock::duration::max();
  for (std::size_t i = 1; i < marks.size(); ++i) best = std::min(best, marks[i] - marks[i - 1]);
  return 2.0 * static_cast<double>(kTotalFloats * sizeof(float)) /
         std::chrono::duration<double>(best).count();
}

}  // namespace phalanx::bench
