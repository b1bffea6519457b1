#pragma once
// Which checkpoints of a save directory stay.

#include <cstdint>
#include <functional>
#include <vector>

#include "phalanx/checkpoint/checkpoint_directory.h"

namespace phalanx {

struct Retention {
  int keep_last = 3;            // this many, the newest included; 0: all
  std::int64_t keep_every = 0;  // and all of iterations that are its multiples; 0: none
  // The newest one that was read back from the disk stays, and all that are newer: as long as none
  // was, nothing goes (verified_marks.h).
  bool waits_for_verified = false;
};

// Those of `saved` (ascending) that may go.
std::vector<SavedCheckpoint> superfluous(
    const std::vector<SavedCheckpoint>& saved, const Retention& retention,
    const std::function<bool(const SavedCheckpoint&)>& is_verified);

}  // namespace phalanx
