#pragma once
// Copies of operands for the tiles of a matrix product. An operand is a set of lines along the
// depth: rows of A, columns of B. Packed, a line is groups of 32 bits (panel_kernel.h), stored line
// by line or in panels of neighbouring lines. Padding is zero.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"

namespace phalanx::cpu {

// An operand in memory.
struct Lines {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;   // elements
  bool depth_inner = false;  // element (line, i) is at line * stride + i, else at i * stride + line

  const std::byte* at(std::int64_t line, std::int64_t i) const {
    return data + (depth_inner ? line * stride + i : i * stride + line) * size_of(dtype);
  }
  Lines from(std::int64_t line, std::int64_t i) const {
    Lines result = *this;
    result.data = at(line, i);
    return result;
  }
};

// A piece of an operand and its packed form.
struct Packing {
  Lines from;
  std::int64_t lines = 0, depth = 0;  // without padding
  DType operand = DType::kF32;        // f32 (16-bit storage is widened), or bf16 in pairs
  std::int64_t groups = 0;            // of the depth, with padding
  std::byte* to = nullptr;
};

constexpr std::int64_t kGroupBytes = 4;

// Writes to[line][group] for `padded_lines` lines.
void pack_lines(const Packing& packing, std::int64_t padded_lines);
// Writes to[panel][group][line of the panel], `width` lines a panel.
void pack_panels(const Packing& packing, std::int64_t width);

}  // namespace phalanx::cpu
