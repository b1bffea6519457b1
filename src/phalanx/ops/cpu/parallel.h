#pragma once
// All CPU parallelism of a rank: the OpenMP team that oneDNN uses too. Work is cut into tasks by
// shape, never by the number of threads, and partial results are combined in task order, so bits do
// not depend on the schedule.

#include <cstdint>

#include "phalanx/ops/cpu/flush_to_zero.h"

namespace phalanx::cpu {

// Calls body(task) for every task in [0, tasks) on `threads` threads, where subnormal numbers are
// zeros. An exception must not leave
// body.
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

}  // namespace phalanx::cpu
