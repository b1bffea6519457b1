#pragma once
// What kernels find wrong in data: the device's side of ops/fault.h. Of all faults of a word the
// smallest row stays, with its value, so that the report is the same every time. The kernel goes on
// with something harmless.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// No fault (ops::kNoFault); what a word is set to before a step.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

// The row in the high 32 bits, the value in the low ones: ops::fault_word().
PHALANX_DEVICE std::uint64_t fault_of(std::int64_t row, std::int32_t value) {
  return (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint32_t>(value);
}

// `word`: that of the op's kind and limit (ops::FaultTable).
PHALANX_DEVICE void report_fault(Thread& t, std::uint64_t* word, std::int64_t row,
                                 std::int32_t value) {
  t.atomic_min(word, fault_of(row, value));
}

}  // namespace phalanx::cuda
