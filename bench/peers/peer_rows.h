#pragma once
// The rows of bench_comm, for the programs of this folder: sizes, repetitions, table. Needs the
// standard library alone.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace peers {

inline constexpr long kFewestBytes = 8;
inline constexpr long kRowBytes = 1L << 30;  // that a row moves, roughly

inline int repetitions(long bytes) {
  return static_cast<int>(std::clamp(kRowBytes / bytes, 11L, 2001L));
}

// Median seconds of a call.
inline double time_it(int count, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUp = 3;
  std::vector<double> times;
  for (int i = -kWarmUp; i < count; ++i) {
    const auto begin = Clock::now();
    body();
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<std::size_t>(count / 2)];
}

// One rank's side of the table; rank 0 prints.
class Rows {
 public:
  // `barrier`: returns when all ranks are there.
  Rows(const std::string& title, int rank, int size, long most_bytes, std::function<void()> barrier)
      : rank_(rank), barrier_(std::move(barrier)) {
    if (rank == 0) {
      std::vector<char> from(static_cast<std::size_t>(most_bytes), 1), to(from.size(), 0);
      memcpy_rate_ = static_cast<double>(most_bytes) / time_it(repetitions(most_bytes), [&] {
                       std::memcpy(to.data(), from.data(), from.size());
                     });
      std::printf("%s, %d ranks, f32; memcpy %.2f GB/s\n", title.c_str(), size,
                  memcpy_rate_ * 1e-9);
      std::printf("%-16s %12s %12s %10s %12s\n", "op", "bytes", "median us", "GB/s", "of memcpy");
    }
    barrier_();
  }

  // `messages`: that follow each other in a call.
  void row(const char* op, long bytes, int messages, const std::function<void()>& body) const {
    const double seconds = time_it(repetitions(bytes), body) / messages;
    barrier_();
    if (rank_ != 0) return;
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("%-16s %12ld %12.2f %10.3f %12.2f\n", op, bytes, seconds * 1e6, rate * 1e-9,
                rate / memcpy_rate_);
    std::fflush(stdout);
  }

 private:
  int rank_;
  std::function<void()> barrier_;
  double memcpy_rate_ = 0.0;
};

// Of every row: 8 B, 1 KiB, then four times as many each.
inline long next_size(long bytes) { return bytes == kFewestBytes ? 1024 : bytes * 4; }

}  // namespace peers
