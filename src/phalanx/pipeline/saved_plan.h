#pragma once
// The places of all saved tensors of a program in the rank's one pool. The list of actions tells
// when each tensor is born and dies (unit by unit within a pass; tensors that chunks exchange, with
// the messages), so each gets a fixed offset before the program runs. A steady state is packed
// once, however many microbatches it has.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/pipeline/action.h"

namespace phalanx {

class SavedPlan {
 public:
  // `tensors[chunk]` are the chunk's saved tensors, the same for every microbatch. The program must
  // have its messages, and its schedule must have been verified.
  SavedPlan(const Program& program, const std::vector<std::vector<SavedTensor>>& tensors);

  // The pool's size.
  std::int64_t bytes() const { return bytes_; }
  // Byte offsets of the tensors of a microbatch on a chunk.
  std::span<const std::int64_t> offsets(int chunk, int microbatch) const;
  // Bytes that a microbatch holds between its forward and its backward pass, including a received
  // input that the backward pass reads.
  std::int64_t bytes_per_microbatch(int chunk) const {
    return bytes_per_microbatch_[static_cast<std::size_t>(chunk)];
  }
  // The most bytes that are lent to passes at once (SavedTensor::is_lent).
  std::int64_t most_lent() const { return most_lent_; }
  // The most microbatches between their forward and their last backward pass at once.
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

// Plans that are used again for equal programs and tensors. The ranks of a tensor-parallel group
// have equal ones; in an evaluation all stages between the first and the last do, except for their
// peers.
class SavedPlans {
 public:
  std::shared_ptr<const SavedPlan> plan(const Program& program,
                                        const std::vector<std::vector<SavedTensor>>& tensors);
  // Drops the plans that have not been asked for since the last call.
  void forget_unused();

 private:
  struct Made {
    bool is_used = true;
    bool forward_only = false;
    std::vector<Action> actions;
    std::vector<std::vector<SavedTensor>> tensors;
    std::shared_ptr<const SavedPlan> plan;
  };
  std::vector<Made> made_;
};

}  // namespace phalanx
