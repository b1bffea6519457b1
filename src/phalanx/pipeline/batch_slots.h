#pragma once
// Which of a rank's few batch buffers (slots) holds a microbatch. It is loaded before its first
// pass on the rank; after its last pass another microbatch uses the slot.

#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

class BatchSlots {
 public:
  explicit BatchSlots(const Program& program);

  // The most microbatches that are needed at once.
  int count() const { return count_; }
  int slot(int microbatch) const { return slots_[static_cast<std::size_t>(microbatch)]; }
  // Whether the program's action `index` is the microbatch's first pass.
  bool is_first_pass(std::size_t index, int microbatch) const {
    return first_pass_[static_cast<std::size_t>(microbatch)] == index;
  }

 private:
  int count_ = 0;
  std::vector<int> slots_;               // by microbatch
  std::vector<std::size_t> first_pass_;  // by microbatch, in program.actions
};

}  // namespace phalanx
