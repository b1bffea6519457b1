#pragma once
// What ops find wrong in the data that they look at. On the host they throw at once. A kernel of a
// device notes the row and the value in a word of memory and goes on with something harmless; the
// host reads the words with the step's numbers, and fails with the same text.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace phalanx::ops {

enum class FaultKind : std::uint8_t {
  kTarget,          // cross_entropy: a target that is no id of the vocabulary
  kPosition,        // add_positions: a position outside the table
  kRotaryPosition,  // rotate: likewise
  kDistinctRows     // sparse_embedding_gradient: a row for which there is no slot left
};

struct Fault {
  FaultKind kind = FaultKind::kTarget;
  std::int64_t row = 0;    // of the operand
  std::int64_t value = 0;  // that was found there
  std::int64_t limit = 0;  // values are from 0 to less than this

  friend bool operator==(const Fault&, const Fault&) = default;
};

// "cross_entropy: target 7 of a vocabulary of 5".
std::string text_of(const Fault& fault);
// Throws InternalError with the text: batches are checked where they are read.
[[noreturn]] void fail(const Fault& fault);

inline void expect_in_range(FaultKind kind, std::int64_t row, std::int64_t value,
                            std::int64_t limit) {
  if (value < 0 || value >= limit) [[unlikely]] {
    fail({.kind = kind, .row = row, .value = value, .limit = limit});
  }
}

// A word of a device's memory has the row in its high and the value in its low 32 bits. Kernels
// lower it by an atomic minimum: the smallest row stays, with its value, in whatever order threads
// come. Each kind and limit has a word of its own.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
constexpr std::uint64_t fault_word(std::int64_t row, std::int32_t value) {
  return (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint32_t>(value);
}

// Which word is whose: the host's part of a device's words.
class FaultTable {
 public:
  static constexpr std::size_t kWords = 64;

  // The number of the word for ops of this kind with this limit. InternalError if there are more
  // than kWords.
  std::size_t word_of(FaultKind kind, std::int64_t limit);
  // What the words say, as read back: of several faults that of the first word. Nothing: no fault.
  std::optional<Fault> first_fault(std::span<const std::uint64_t> words) const;

 private:
  std::vector<Fault> words_;  // kind and limit
};

}  // namespace phalanx::ops
