#pragma once
// All CPU parallelism of a rank: the team of its thread (base/team.h). Work is cut into tasks by
// shape, never by the number of threads, and partial results are combined in task order. So bits do
// not depend on which thread runs a task, and in which order.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/base/team.h"
#include "phalanx/ops/cpu/flush_to_zero.h"

namespace phalanx::cpu {

// A task computes alike in every slot: the number of a thread, for scratch memory of its own.
template <typename Body>
concept NeedsSlot = std::invocable<const Body&, std::int64_t, int>;

template <typename Body>
void run_task(const Body& body, std::int64_t task, int slot) {
  if constexpr (NeedsSlot<Body>) {
    body(task, slot);
  } else {
    body(task);
  }
}

// Calls body(task) or body(task, slot) for every task in [0, tasks) on up to `threads` threads,
// with subnormal numbers as zeros. body must not throw.
template <typename Body>
void parallel_for(int threads, std::int64_t tasks, const Body& body) {
  // Enough for threads that are free early to help others.
  constexpr std::int64_t kPartsOfThread = 32;
  const std::int64_t size = std::max<std::int64_t>(1, ceil_div(tasks, threads * kPartsOfThread));
  Team::mine().run(threads, ceil_div(tasks, size), Dealing::kNeighbours, [&](Team::Member& member) {
    const FlushToZero mode;
    while (member.next()) {
      const std::int64_t begin = member.part() * size;
      const std::int64_t end = std::min(begin + size, tasks);
      for (std::int64_t task = begin; task < end; ++task) run_task(body, task, member.slot());
    }
  });
}

// The same for tasks of unequal cost: a free thread takes the next task, in this order.
template <typename Body>
void for_each_task(int threads, std::int64_t tasks, const Body& body) {
  Team::mine().run(threads, tasks, Dealing::kInOrder, [&](Team::Member& member) {
    const FlushToZero mode;
    while (member.next()) run_task(body, member.part(), member.slot());
  });
}

}  // namespace phalanx::cpu
