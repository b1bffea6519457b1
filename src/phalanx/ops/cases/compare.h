#pragma once
// The test mode of the case table: one case on two backends, from the same operands.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

// A backend, and where its tensors lie. Elsewhere than on the host a case's operands are uploaded
// and read back.
struct Machine {
  Backend& backend;
  ArenaMemory& memory = host_memory();
  // Scratch memory of an op elsewhere than on the host; cuBLASLt takes 32 MiB of a large device.
  std::int64_t device_workspace_bytes = std::int64_t{1} << 20;
};

// What went wrong, or an empty string: an output element farther from the reference than its
// tolerance, a byte outside the outputs that changed, or scratch memory used beyond what
// workspace_bytes asked for.
std::string compare_with_reference(const Case& row, DType storage, const Machine& machine);

// A case run twice: what went wrong, as compare_with_reference() says it, or bits that differ
// between the two runs; and the error that is largest as a share of its tolerance, both relative to
// the output's scale.
struct Judgement {
  std::string wrong;
  double error = 0.0;
  double tolerance = 0.0;
};
Judgement judge_twice(const Case& row, DType storage, const Machine& machine);

// Whether the op's check refuses the case when the operand of this number has another type, or the
// op does not use it: the outputs are the same. Nothing where there are fewer operands.
std::optional<bool> refuses_disguised(const Case& row, DType storage, int operand,
                                      const Machine& machine);

// The bytes of all outputs, one after the other.
std::vector<std::byte> output_bits(const Case& row, DType storage, const Machine& machine);

// Empty when both backends give the same bits.
std::string compare_bits(const Case& row, DType storage, const Machine& a, const Machine& b);

}  // namespace phalanx::ops
