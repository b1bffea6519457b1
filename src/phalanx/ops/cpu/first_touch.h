#pragma once
// Memory lies on the NUMA node of the thread that first writes it.

#include <cstdint>

#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {

// Takes the memory of an unwritten arena from the system, piece by piece. Each page is first
// written by the thread of the team that computes on it: threads have shares of flat buffers, in
// order.
class FirstTouch {
 public:
  FirstTouch(int threads, const Arena& arena);

  std::int64_t left() const;  // bytes that are not taken yet
  // Takes about this many bytes more, evenly from the shares of all threads. SystemError where the
  // system refuses them.
  void take(std::int64_t bytes);

 private:
  // A thread's share, or what of it the next `pieces` of every share are.
  struct Range {
    std::int64_t begin = 0, end = 0;  // bytes of the arena
  };
  Range share(int thread, std::int64_t from, std::int64_t pieces) const;

  int threads_;
  const Arena& arena_;
  std::int64_t pieces_;     // of the arena
  std::int64_t taken_ = 0;  // of every share
};

}  // namespace phalanx::cpu
