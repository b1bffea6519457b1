#pragma once
// A language model that goes on with several sequences at a time, as those who choose tokens see
// it.

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual std::int64_t vocabulary() const = 0;
  // Sequences 0, 1, ... that it can keep at a time, and positions that each may have.
  virtual int sequences() const = 0;
  virtual std::int64_t capacity() const = 0;

  // Positions that the model remembers of a sequence.
  virtual std::int64_t length(int sequence) const = 0;
  // Forgets all positions from `length` on.
  virtual void truncate(int sequence, std::int64_t length) = 0;
  // What is remembered of `from` replaces what is of `to`.
  virtual void copy(int from, int to) = 0;

  // A sequence goes on with these tokens: the logits [vocabulary] of the one that follows them.
  virtual std::vector<float> read(int sequence, std::span<const std::int32_t> tokens) = 0;

  // Different sequences, each with one token: the logits of all, one after the other. The bits are
  // those of each by itself.
  struct Next {
    int sequence = 0;
    std::int32_t token = 0;
  };
  virtual std::vector<float> step(std::span<const Next> next) = 0;
};

}  // namespace phalanx
