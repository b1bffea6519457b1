#pragma once
// The interface of a language model that continues several sequences at a time, for the code that
// chooses tokens.

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual std::int64_t vocabulary() const = 0;
  // How many sequences it keeps (0, 1, ...), and how many positions each may have.
  virtual int sequences() const = 0;
  virtual std::int64_t capacity() const = 0;

  // How many positions of a sequence the model has read.
  virtual std::int64_t length(int sequence) const = 0;
  // Forgets all positions from `length` on.
  virtual void truncate(int sequence, std::int64_t length) = 0;
  // Sequence `to` becomes a copy of `from`.
  virtual void copy(int from, int to) = 0;

  // Appends tokens to a sequence; returns the logits [vocabulary] of the token that follows them.
  virtual std::vector<float> read(int sequence, std::span<const std::int32_t> tokens) = 0;

  // Appends one token to each of several sequences; returns the logits of all, one after the other.
  // They have the bits that each sequence would have alone.
  struct Next {
    int sequence = 0;
    std::int32_t token = 0;
  };
  virtual std::vector<float> step(std::span<const Next> next) = 0;
};

}  // namespace phalanx
