#pragma once
// A heuristic for one chunk on every rank, after that of the zero-bubble paper: as many forward
// passes as memory allows before the first gradient is there, then forward passes and input
// gradients in turn, and weight gradients where the rank would wait or memory is full. Time is kept
// here, not by a replay, because a rank's list comes to be as time goes on.

#include <optional>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct GapFillingRule {
  // A forward pass of the warmup may delay the first gradient by this share of its time.
  double warmup_delay = 0.0;
  // A weight gradient fills a gap of at least this share of its time.
  double least_gap = 1.0;
  // Whether it also fills a smaller gap that would leave this rank with the most idle time of all.
  bool levels_idle_time = false;
  // Whether an input gradient that is ready runs out of turn.
  bool backward_first = false;
};

// For request.ranks, request.microbatches and request.costs. Nothing where the memory holds no
// activation.
std::optional<ActionLists> gap_filling_passes(const ScheduleRequest& request, double memory_limit,
                                              const GapFillingRule& rule);

}  // namespace phalanx
