#pragma once
// The rehearsal of a rank's programs on the planning backend: what they compute, send and hold.

#include <cstdint>
#include <vector>

#include "phalanx/rank/rank.h"

namespace phalanx {

// The most that a pass of one unit computes and moves.
struct LargestUnit {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const LargestUnit&, const LargestUnit&) = default;
};

struct RankRehearsal {
  std::int64_t flops_per_step = 0;
  LargestUnit largest_unit;
  // Of the usual program, which is one iteration unless the schedule is asynchronous:
  MessageTotals messages;
  TransferTotals transfers;
  MemoryBytes made;                     // the arenas' high-water marks before the first program
  std::vector<ProgramMemory> programs;  // those of training, then the evaluation's
  // Of the program that takes the most:
  std::size_t largest = 0;                         // its index in `programs`
  std::vector<std::int64_t> saved_per_microbatch;  // by chunk
  std::vector<int> microbatches_in_flight;         // by chunk
  std::int64_t lent = 0;                           // the most that is lent to passes at once
};

// Runs every distinct action of the rank's programs once.
RankRehearsal rehearse(Rank& rank);

// Runs the usual program on the planning backend, every action of it. `observer` is told about the
// states, `passes` about the units' passes, and `recorder` keeps every event.
void play_usual_step(Rank& rank, StateObserver& observer, nn::UnitHooks& passes,
                     Recorder& recorder);

}  // namespace phalanx
