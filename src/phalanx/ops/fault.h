#pragma once
// What ops find wrong in the data that they look at. On the host they throw at once. A kernel of a
// device notes it in words of memory and goes on with something harmless; the host reads the words
// with the step's numbers, and fails with the same text.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/ops/backend.h"

namespace phalanx::ops {

struct Fault {
  std::size_t op = 0;      // its number in OpList
  std::int64_t row = 0;    // of the operand
  std::int64_t value = 0;  // that was found there
  std::int64_t limit = 0;  // values are from 0 to less than this

  friend bool operator==(const Fault&, const Fault&) = default;
};

// "cross_entropy: target 7 of a vocabulary of 5". InternalError for an op that finds no faults.
std::string text_of(const Fault& fault);
// Throws InternalError with the text: batches are checked where they are read.
[[noreturn]] void fail(const Fault& fault);

template <typename Op>
void expect_in_range(std::int64_t row, std::int64_t value, std::int64_t limit) {
  if (value < 0 || value >= limit) [[unlikely]] {
    fail({.op = number_in<Op>(OpList()), .row = row, .value = value, .limit = limit});
  }
}

// The words in a device's memory. Kernels lower each by an atomic minimum, so that of several
// faults one stays, the same in whatever order threads come: the first in OpList, then the smallest
// row. All begin with the op and the row; the second ends with the value, the third with the limit.
//   words[0] = op << 40 | row
//   words[1] = op << 56 | row << 32 | value, as 32 bits with a sign
//   words[2] = op << 56 | row << 32 | limit
// Rows from 2^24 on count as 2^24 - 1 in the second and the third.
using FaultWords = std::array<std::uint64_t, 3>;
inline constexpr FaultWords kNoFault = {~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}};

std::optional<Fault> fault_in(const FaultWords& words);

}  // namespace phalanx::ops
