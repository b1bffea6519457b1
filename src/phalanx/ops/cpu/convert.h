#pragma once
// Conversions between dense ranges of 16-bit floating-point types and f32, by vectors. Reductions
// of messages (comm/) use them.

#include <cstdint>

#include "phalanx/base/dtype.h"

namespace phalanx::cpu {

// to[i] = from[i], exactly; `from` holds bf16 or f16.
void widen(DType dtype, const void* from, float* to, std::int64_t count);
// to[i] = from[i], rounded to nearest even; `to` holds bf16 or f16.
void narrow(DType dtype, const float* from, void* to, std::int64_t count);

}  // namespace phalanx::cpu
