#pragma once
// Where every saved tensor of a program lies in the rank's one pool. The list of actions says when
// each block is born and dies (unit by unit within a pass; what chunks exchange, with the
// messages), so a fixed offset is packed for each before the first byte moves. However many
// microbatches there are, a steady state is packed once.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/pipeline/action.h"

namespace phalanx {

class SavedPlan {
 public:
  // `blocks[chunk]` are the chunk's saved blocks, the same for every microbatch. The program has
  // its messages, and its schedule must have been verified.
  SavedPlan(const Program& program, const std::vector<std::vector<SavedTensor>>& blocks);

  // The pool's size.
  std::int64_t bytes() const { return bytes_; }
  // Byte offsets of the blocks of one microbatch on one chunk.
  std::span<const std::int64_t> offsets(int chunk, int microbatch) const;
  // What a microbatch holds between its forward and its backward pass, with a received input that
  // backward reads.
  std::int64_t bytes_per_microbatch(int chunk) const {
    return bytes_per_microbatch_[static_cast<std::size_t>(chunk)];
  }
  // The most that is at once lent to passes (SavedTensor).
  std::int64_t most_lent() const { return most_lent_; }
  // The most microbatches that are at once between their forward and their last backward pass.
  int microbatches_in_flight(int chunk) const {
    return in_flight_[static_cast<std::size_t>(chunk)];
  }

 private:
  std::size_t index(int chunk, int microbatch) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  int microbatches_;
  std::int64_t bytes_ = 0;
  std::int64_t most_lent_ = 0;
  std::vector<std::int64_t> bytes_per_microbatch_;
  std::vector<int> in_flight_;
  std::vector<std::vector<std::int64_t>> layouts_;  // distinct offset tables
  std::vector<std::size_t> layout_of_;              // by index()
};

// The plans that were made, for whoever asks for the same again: the ranks of a tensor-parallel
// group have the same programs and blocks; in an evaluation so have the stages between the first
// and the last, but for their peers.
class SavedPlans {
 public:
  std::shared_ptr<const SavedPlan> plan(const Program& program,
                                        const std::vector<std::vector<SavedTensor>>& blocks);
  // Those that nobody has asked for since this was last called.
  void forget_unused();

 private:
  struct Made {
    bool is_used = true;
    bool forward_only = false;
    std::vector<Action> actions;
    std::vector<std::vector<SavedTensor>> blocks;
    std::shared_ptr<const SavedPlan> plan;
  };
  std::vector<Made> made_;
};

}  // namespace phalanx
