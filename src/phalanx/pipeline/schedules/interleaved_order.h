#pragma once
// The order in which a rank with v chunks takes its passes when microbatches go through the looped
// pipeline in groups: the first group through chunk 0, then through chunk 1, ..., then the second
// group. Backward passes take the same groups through the chunks from the last to the first. All
// ranks have the same order.

#include <vector>

#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/schedules/warmup_order.h"

namespace phalanx {

struct InterleavedOrder {
  std::vector<ChunkAndMicrobatch> forward;
  std::vector<ChunkAndMicrobatch> backward;
  int largest_group = 1;
};

// Groups of request.group_size, the last one short where it has to be. 0: as many groups of at
// least `ranks` microbatches as there can be, of equal size or one apart; fewer microbatches than
// ranks are one group.
InterleavedOrder interleaved_order(const ScheduleRequest& request, int chunks);

}  // namespace phalanx
