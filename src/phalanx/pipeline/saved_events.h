#pragma once
// What a program does to saved memory: the events of a microbatch on a chunk, and which saved
// tensors are born and die at each.

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
  kInputReceived,
  kOutputReleased,
  kOutputGradientReceived,
  kInputGradientReleased,
};
inline constexpr std::size_t kSavedEventKinds = 8;

struct SavedEvent {
  SavedEventKind kind = SavedEventKind::kForward;
  int chunk = 0;
  int microbatch = 0;
  // Whether it is the first or the last event of this microbatch on this chunk.
  bool first = false;
  bool last = false;

  friend bool operator==(const SavedEvent&, const SavedEvent&) = default;
};

// In the order of the program. Actions that do not change saved memory have none.
std::vector<SavedEvent> saved_events(const Program& program);

struct TensorChange {
  std::size_t tensor = 0;
  bool born = false;  // else it dies
};

// The lives of a chunk's saved tensors.
struct SavedLives {
  std::vector<std::int64_t> bytes;  // by tensor
  // By tensor: its kind, numbered over all chunks. The k-th tensors of each chunk with the same
  // size that live between the same passes are of one kind: they may use each other's places.
  std::vector<std::size_t> kinds;
  // The births and deaths of a microbatch's tensors at an event, in order. Empty tensors are left
  // out.
  std::span<const TensorChange> changes(SavedEventKind kind) const {
    return changes_of[static_cast<std::size_t>(kind)];
  }
  std::array<std::vector<TensorChange>, kSavedEventKinds> changes_of;
};

// By chunk, of a program with its messages.
std::vector<SavedLives> saved_lives(const Program& program,
                                    const std::vector<std::vector<SavedTensor>>& tensors);

}  // namespace phalanx
