#pragma once
// Orders that follow from a rule of choice: a clock runs, and whenever a rank is idle it takes one
// of the passes that are ready. A forward pass takes one tick, a fused backward pass two, messages
// none, whatever they cost in truth: the lists that come out are kept for any costs. Of ready
// forward passes a rank takes that of the deepest stage, then of the lowest microbatch.

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct ListRule {
  // Where forward and backward passes are ready.
  enum class Prefer : std::uint8_t {
    kBackward,
    kAlternate,  // the kind that the rank did not do last
  };
  // Of ready backward passes.
  enum class BackwardOrder : std::uint8_t { kLowestMicrobatch, kDeepestStage };

  Prefer prefer = Prefer::kBackward;
  BackwardOrder backward_order = BackwardOrder::kDeepestStage;
  bool forward_only = false;
};

struct ListSchedule {
  ActionLists ranks;
  int makespan = 0;  // in ticks
  int peak = 0;      // the most activations of a chunk and microbatch that a rank holds
};

// `microbatches` of all directions together.
ListSchedule list_schedule(const Placement& placement, int microbatches, const ListRule& rule);

}  // namespace phalanx
