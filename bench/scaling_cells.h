#pragma once
// The cells of `bench_comm --scaling`: each operation at each size, timed by all ranks of a world
// together, a line of text for each. Needs the standard library alone, since the programs of peers/
// time the same cells.
//
// The bytes of a cell are those of the whole tensor on each rank: what all_reduce reduces, the
// output of all_gather, the input of reduce_scatter. So (n - 1) / n of them cross to other ranks.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace scaling {

inline constexpr std::array<const char*, 3> kOperations = {"all_reduce", "all_gather",
                                                           "reduce_scatter"};
inline constexpr std::array<long, 4> kSizes = {4L << 10, 64L << 10, 1L << 20, 64L << 20};
inline constexpr std::array<int, 6> kRanks = {2, 4, 8, 16, 32, 64};
// A rank's input and output.
inline constexpr long kBytesOfRank = 2 * kSizes.back();

// How the cells of one world are timed, on each of its ranks.
struct Timing {
  int rank = 0;
  double seconds = 10;  // for all cells; what does not fit is left out, the largest first
  // The number of rank 0, on all ranks.
  std::function<double(double of_first)> agree;
  std::function<void()> barrier;
};

// Runs `call` (operation, bytes) for each cell; rank 0 prints "cell OPERATION BYTES SECONDS COUNT":
// the median of COUNT calls that follow each other.
inline void time_cells(const Timing& timing,
                       const std::function<void(const std::string&, long)>& call) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  constexpr double kCellSeconds = 0.2;
  const auto begin = Clock::now();
  std::array<double, kOperations.size()> last{};  // seconds of a call at the size before
  for (std::size_t size = 0; size < kSizes.size(); ++size) {
    for (std::size_t i = 0; i < kOperations.size(); ++i) {
      const std::string operation = kOperations[i];
      // Before the first call: as long as at the size before, for each byte.
      const double growth =
          size == 0 ? 0.0
                    : static_cast<double>(kSizes[size]) / static_cast<double>(kSizes[size - 1]);
      if (timing.agree(2 * last[i] * growth + since(begin) < timing.seconds ? 1 : 0) == 0) continue;
      timing.barrier();
      auto at = Clock::now();
      call(operation, kSizes[size]);  // pages and connections
      timing.barrier();
      const double first = since(at);
      const double left = timing.seconds - since(begin);
      const double affordable = std::min(kCellSeconds, left) / std::max(first, 1e-9);
      const int count = static_cast<int>(timing.agree(std::clamp(affordable, 1.0, 400.0)));
      std::vector<double> times;
      for (int k = 0; k < count; ++k) {
        at = Clock::now();
        call(operation, kSizes[size]);
        times.push_back(since(at));
      }
      timing.barrier();
      std::nth_element(times.begin(), times.begin() + count / 2, times.end());
      last[i] = times[static_cast<std::size_t>(count / 2)];
      if (timing.rank != 0) continue;
      std::printf("cell %s %ld %.9f %d\n", operation.c_str(), kSizes[size], last[i], count);
      std::fflush(stdout);
    }
  }
}

}  // namespace scaling
