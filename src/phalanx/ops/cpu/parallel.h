#pragma once
// All CPU parallelism of a rank: one OpenMP team. Work is cut into tasks by shape, never by the
// number of threads, and partial results are combined in task order, so bits do not depend on the
// schedule.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "phalanx/ops/cpu/flush_to_zero.h"

namespace phalanx::cpu {

// Calls body(task) for every task in [0, tasks) on `threads` threads, where subnormal numbers are
// zeros.
// An exception must not leave body.
template <typename Body>
void parallel_for(int threads, std::int64_t tasks, const Body& body) {
  if (threads == 1 || tasks == 1) {
    const FlushToZero mode;
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const FlushToZero mode;
#pragma omp for schedule(static) nowait
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  }
}

// The same for tasks of unequal weight: each goes to the next thread that is free, in about this
// order. body(task, slot), where slots are numbers of threads from 0 on.
template <typename Body>
void for_each_task(int threads, std::int64_t tasks, const Body& body) {
  std::atomic<std::int64_t> next = 0;
  parallel_for(threads, std::min<std::int64_t>(threads, tasks), [&](std::int64_t slot) {
    for (std::int64_t task = next++; task < tasks; task = next++) body(task, slot);
  });
}

}  // namespace phalanx::cpu
