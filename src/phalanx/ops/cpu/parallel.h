#pragma once
// All CPU parallelism of a rank: one OpenMP team. Work is cut into tasks by shape, never by the
// number of threads, and partial results are combined in task order. So bits do not depend on the
// order in which threads run tasks.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "phalanx/ops/cpu/flush_to_zero.h"

namespace phalanx::cpu {

// Calls body(task) for every task in [0, tasks) on `threads` threads, with subnormal numbers as
// zeros. body must not throw.
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

// The same for tasks of unequal cost: a free thread takes the next task, in about this order. Calls
// body(task, slot), where slot is the number of the thread.
template <typename Body>
void for_each_task(int threads, std::int64_t tasks, const Body& body) {
  std::atomic<std::int64_t> next = 0;
  parallel_for(threads, std::min<std::int64_t>(threads, tasks), [&](std::int64_t slot) {
    for (std::int64_t task = next++; task < tasks; task = next++) body(task, slot);
  });
}

}  // namespace phalanx::cpu
