#pragma once
// The test mode of the case table: one case on two backends, from the same operands.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

// What went wrong, or an empty string: an output element farther from the reference than its
// tolerance, a byte outside the outputs that changed, or scratch memory used beyond what
// workspace_bytes asked for.
std::string compare_with_reference(const Case& row, DType storage, Backend& backend);

// Whether the op's check refuses the case when the operand of this number has another type, or the
// op does not use it: the outputs are the same. Nothing where there are fewer operands.
std::optional<bool> refuses_disguised(const Case& row, DType storage, int operand,
                                      Backend& backend);

// The bytes of all outputs, one after the other.
std::vector<std::byte> output_bits(const Case& row, DType storage, Backend& backend);

// Empty when both backends give the same bits.
std::string compare_bits(const Case& row, DType storage, Backend& a, Backend& b);

}  // namespace phalanx::ops
