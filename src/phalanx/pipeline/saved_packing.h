#pragma once
// Packs the saved tensors of all microbatches into one pool. A tensor gets the place of the same
// tensor of a microbatch that no longer needs it, if that place is free, else the smallest hole
// that fits. So the microbatches of a steady state take turns in the same places, and are packed
// once.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "phalanx/pipeline/saved_events.h"

namespace phalanx {

struct PackedOffsets {
  using Offsets = std::vector<std::int64_t>;  // by tensor
  std::int64_t bytes = 0;                     // the pool's size
  std::vector<Offsets> layouts;
  // By chunk * microbatches + microbatch; kNoLayout if it has no event.
  int microbatches = 0;
  std::vector<std::size_t> layout_of;
  static constexpr std::size_t kNoLayout = std::numeric_limits<std::size_t>::max();
  std::size_t packed_events = 0;  // all other events repeated these
};

// Whether events that repeat earlier ones are packed again. The result is the same.
enum class Repetitions : std::uint8_t { kSkipped, kPacked };

PackedOffsets pack_offsets(std::span<const SavedEvent> events, std::span<const SavedLives> lives,
                           Repetitions repetitions = Repetitions::kSkipped);

}  // namespace phalanx
