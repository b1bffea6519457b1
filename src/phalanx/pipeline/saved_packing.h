#pragma once
// Offsets for all blocks of all microbatches. A block goes where the same block of a microbatch
// that no longer needs it was, if that is free, and else into the smallest hole that fits. So the
// microbatches of a steady state come to take turns in the same places, and are packed once.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "phalanx/pipeline/saved_events.h"

namespace phalanx {

struct PackedOffsets {
  using Offsets = std::vector<std::int64_t>;  // by block
  std::int64_t bytes = 0;                     // the pool's size
  std::vector<Offsets> layouts;
  // By chunk * microbatches + microbatch; kNoLayout of those that have no event.
  int microbatches = 0;
  std::vector<std::size_t> layout_of;
  static constexpr std::size_t kNoLayout = std::numeric_limits<std::size_t>::max();
  std::size_t packed_events = 0;  // the others repeated these
};

// What repeats itself is not packed again. It makes no difference to the result.
enum class Repetitions : std::uint8_t { kSkipped, kPacked };

PackedOffsets pack_offsets(std::span<const SavedEvent> events, std::span<const SavedLives> lives,
                           Repetitions repetitions = Repetitions::kSkipped);

}  // namespace phalanx
