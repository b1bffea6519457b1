#pragma once
// Sequences of token ids, however they come to be.

#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/data/index_array.h"

namespace phalanx {

class TokenSequences {
 public:
  virtual ~TokenSequences() = default;

  // For messages: a dataset's prefix.
  virtual std::string_view name() const = 0;
  virtual std::int64_t sequences() const = 0;
  // Tokens of one sequence.
  virtual std::int32_t length(std::int64_t sequence) const = 0;
  // The lengths of sequences [begin, end).
  virtual SequenceLengths lengths(std::int64_t begin, std::int64_t end) const = 0;
  // Token ids [offset, offset + out.size()) of one sequence. An id that does not fit `out` is a
  // DataError.
  virtual void get(std::int64_t sequence, std::int64_t offset,
                   std::span<std::int32_t> out) const = 0;
  // Of each token of a sequence whether a model learns to say it, 1 or 0; empty: it learns all.
  virtual std::span<const std::uint8_t> trained(std::int64_t /*sequence*/) const { return {}; }
};

}  // namespace phalanx
