#pragma once
// What the operations of a warp compute, from what its 32 lanes brought.

#include <cstdint>

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// results[lane] from operands[all]. Returns how often a phase of ldmatrix had to be repeated.
std::int64_t compute_warp_operation(WarpOp op, const WarpOperand* operands, WarpOperand* results);

// "shuffle"
const char* name_of(WarpOp op);

}  // namespace phalanx::cuda
