#pragma once
// Memory lies on the NUMA node of the thread that first writes it.

#include <cstdint>

#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {

// Takes the memory of an unwritten arena from the system, piece by piece. The thread that will
// compute on a page writes it first: each thread has one share of a flat buffer, in order.
class FirstTouch {
 public:
  FirstTouch(int threads, const Arena& arena);

  std::int64_t left() const;  // bytes not yet taken
  // Takes about this many more bytes, evenly from all threads' shares. SystemError if the system
  // refuses.
  void take(std::int64_t bytes);

 private:
  // A thread's share, or the next `pieces` of it.
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
