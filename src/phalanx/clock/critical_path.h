#pragma once
// The chain of work and waits from which the length of a step follows.

#include <optional>
#include <vector>

#include "phalanx/clock/program_clock.h"

namespace phalanx {

// A stretch of a rank's time, of work at one action or of one wait.
struct Stretch {
  double begin = 0.0;
  double end = 0.0;
  std::size_t action = 0;
  std::optional<TimePart> waits_for;
  // Of a wait: the rank and the time from which its end follows.
  struct Cause {
    int rank = 0;
    double time = 0.0;
  } cause = {};
};

// Back from the end of `rank`'s stretches: a stretch follows from the one before it, a wait from
// its cause. `stretches`, by rank, leave no gap.
std::vector<CriticalStep> critical_path(const std::vector<std::vector<Stretch>>& stretches,
                                        const std::vector<ClockRank>& ranks, int rank);

}  // namespace phalanx
