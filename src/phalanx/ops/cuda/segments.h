#pragma once
// Tables of segments (ops/segments.h) on a device.

#include <span>

#include "phalanx/ops/cuda/context.h"
#include "phalanx/ops/segments.h"

namespace phalanx::cuda {

// At least one row.
struct DeviceSegments {
  std::span<const ops::Segment> host;
  const std::byte* device = nullptr;  // the same rows; a multiple of 8
  std::int64_t first = 0;             // the operands' first element
};

// How many blocks of the grid the segments touch.
std::int64_t blocks_of(const DeviceSegments& segments);

// Whether fours of the grid begin at multiples of 16 bytes in this operand.
bool has_packs(const DeviceSegments& segments, const void* operand, DType type);

}  // namespace phalanx::cuda
