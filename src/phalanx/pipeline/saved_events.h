#pragma once
// What a program does to saved memory: the moments of a microbatch's life on a chunk, and which
// blocks are born and die at each.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/pipeline/action.h"

namespace phalanx {

enum class SavedEventKind : std::uint8_t {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  // At the chunk's ends (PassPoint).
  kInputComes,
  kOutputGone,
  kOutputGradientComes,
  kInputGradientGone,
};
inline constexpr std::size_t kSavedEventKinds = 8;

struct SavedEvent {
  SavedEventKind kind = SavedEventKind::kForward;
  int chunk = 0;
  int microbatch = 0;
  // Of this microbatch on this chunk: before it, and behind it, nothing of it is saved.
  bool first = false;
  bool last = false;

  friend bool operator==(const SavedEvent&, const SavedEvent&) = default;
};

// Actions that leave saved memory alone have none.
std::vector<SavedEvent> saved_events(const Program& program);

struct BlockChange {
  std::size_t block = 0;
  bool born = false;  // or it dies
};

// The blocks of a chunk by what happens to them.
struct SavedLives {
  std::vector<std::int64_t> bytes;  // by block
  // By block: alike are the blocks of chunks that are as large and live between the same passes, in
  // order. Numbered over all chunks.
  std::vector<std::size_t> likeness;
  // What becomes of a microbatch's blocks at an event, in order. Empty blocks are left out.
  std::span<const BlockChange> changes(SavedEventKind kind) const {
    return changes_of[static_cast<std::size_t>(kind)];
  }
  std::array<std::vector<BlockChange>, kSavedEventKinds> changes_of;
};

// By chunk, of a program with its messages.
std::vector<SavedLives> saved_lives(const Program& program,
                                    const std::vector<std::vector<SavedTensor>>& blocks);

}  // namespace phalanx
