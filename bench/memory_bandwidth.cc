#include "memory_bandwidth.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "phalanx/tensor/arena.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::bench {
namespace {

constexpr std::int64_t kBytes = std::int64_t{1} << 30;
constexpr std::size_t kStreams = 4;
constexpr std::size_t kBlock = 256;
constexpr int kRounds = 6;  // the first touches the pages

// Several streams at once, as operations have them: more lines are under way than with one.
void increment(std::span<float> values) {
  const std::size_t stream = values.size() / kStreams;
  for (std::size_t begin = 0; begin < stream; begin += kBlock) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      for (float& value : values.subspan(i * stream + begin, kBlock)) value += 1.0F;
    }
  }
}

}  // namespace

double measure_bandwidth(int threads) {
  using Clock = std::chrono::steady_clock;
  // Memory as the ops have it: an arena's large pages.
  Arena arena("bandwidth", kBytes);
  const auto unit = static_cast<std::int64_t>(kStreams * kBlock);
  const std::int64_t part = kBytes / size_of(DType::kF32) / threads / unit * unit;
  std::vector<std::span<float>> parts;
  for (int i = 0; i < threads; ++i) {
    parts.push_back(arena.allocate(DType::kF32, {part}).span<float>());
  }
  std::vector<Clock::time_point> marks;
  marks.reserve(kRounds);
  std::barrier barrier(threads, [&marks]() noexcept { marks.push_back(Clock::now()); });
  const auto work = [&barrier](std::span<float> values) {
    for (int round = 0; round < kRounds; ++round) {
      increment(values);
      barrier.arrive_and_wait();
    }
  };
  {
    std::vector<std::jthread> team;
    for (const auto& values : parts) team.emplace_back(work, values);
  }
  auto best = Clock::duration::max();
  for (std::size_t i = 1; i < marks.size(); ++i) best = std::min(best, marks[i] - marks[i - 1]);
  return 2.0 * static_cast<double>(part * threads * size_of(DType::kF32)) /
         std::chrono::duration<double>(best).count();
}

}  // namespace phalanx::bench
