#pragma once
// What kernels find wrong in data. A fault is a number of an op and a row; of all faults of a step
// the smallest stays, so that the report is the same every time. The kernel goes on with something
// harmless.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// No fault; what the word is set to before a step.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

// The op in the high 24 bits, the row in the low 40.
PHALANX_DEVICE std::uint64_t fault_key(std::uint32_t op, std::int64_t row) {
  return (std::uint64_t{op} << 40) | static_cast<std::uint64_t>(row);
}

PHALANX_DEVICE void report_fault(Thread& t, std::uint64_t* word, std::uint32_t op,
                                 std::int64_t row) {
  t.atomic_min(word, fault_key(op, row));
}

}  // namespace phalanx::cuda
