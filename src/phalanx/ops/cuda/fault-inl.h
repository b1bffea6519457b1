#pragma once
// What kernels find wrong in data. A fault is the number of an op and a row; of all faults of a
// step the smallest stays, so that the report is the same every time. The kernel goes on with
// something harmless.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// No fault; what all words are set to before a step: bytes of 0xff.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
// The key, and beside it the number that was found and the end of the range where it belongs. Each
// is kept by its minimum. The second and third have op and row (its low 24 bits) in front, so that
// they belong to the smallest fault, too.
inline constexpr int kFaultWords = 3;

// The op in the high 24 bits, the row in the low 40.
PHALANX_DEVICE std::uint64_t fault_key(std::uint32_t op, std::int64_t row) {
  return (std::uint64_t{op} << 40) | static_cast<std::uint64_t>(row);
}
// The op in the high 8 bits, the row in 24, the number in the low 32.
PHALANX_DEVICE std::uint64_t fault_detail(std::uint32_t op, std::int64_t row, std::int64_t number) {
  return (std::uint64_t{op} << 56) | ((static_cast<std::uint64_t>(row) & 0xffffffU) << 32) |
         static_cast<std::uint32_t>(number);
}

struct FaultReport {
  std::uint64_t* words;  // null: nobody asks
  std::uint32_t op;
};

PHALANX_DEVICE void report_fault(Thread& t, const FaultReport& to, std::int64_t row,
                                 std::int64_t number, std::int64_t end) {
  if (to.words == nullptr) return;
  t.atomic_min(to.words, fault_key(to.op, row));
  t.atomic_min(to.words + 1, fault_detail(to.op, row, number));
  t.atomic_min(to.words + 2, fault_detail(to.op, row, end));
}

}  // namespace phalanx::cuda
