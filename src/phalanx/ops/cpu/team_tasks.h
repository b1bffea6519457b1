#pragma once
// Tasks that a team of threads shares within one parallel region.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace phalanx::cpu {

// A range of rows, panels or depths.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};
// The piece number `index` of a range that is cut into pieces of `size`; the last may be shorter.
inline Range piece(std::int64_t index, std::int64_t size, const Range& of) {
  const std::int64_t begin = of.begin + index * size;
  return {begin, std::min(of.end, begin + size)};
}

// Tasks of a team. A thread starts with neighbouring tasks, whose operands it has mostly packed
// itself, and then helps other threads.
class TeamTasks {
 public:
  static std::int64_t bytes(int threads) { return threads * kLine; }

  TeamTasks(int threads, std::byte* memory)
      : threads_(threads), next_(reinterpret_cast<std::int64_t*>(memory)) {}

  // One thread calls this before all threads run tasks.
  void set(std::int64_t count) {
    count_ = count;
    for (int thread = 0; thread < threads_; ++thread) next_of(thread) = begin(thread);
  }
  template <typename Body>
  void run(int thread, const Body& body) {
    for (int i = 0; i < threads_; ++i) {
      const int whose = (thread + i) % threads_;
      std::atomic_ref<std::int64_t> next(next_of(whose));
      for (std::int64_t task = next++; task < begin(whose + 1); task = next++) body(task);
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;  // a cache line for each thread

  std::int64_t begin(int thread) const { return count_ * thread / threads_; }
  std::int64_t& next_of(int thread) {
    return next_[thread * kLine / static_cast<std::int64_t>(sizeof(std::int64_t))];
  }

  int threads_;
  std::int64_t* next_;
  std::int64_t count_ = 0;
};

}  // namespace phalanx::cpu
