#include "phalanx/ops/cuda/segments.h"

namespace phalanx::cuda {

std::int64_t blocks_of(const DeviceSegments& segments) {
  const ops::Segment& last = segments.host.back();
  return last.first_block + ops::blocks_of(last) - segments.host.front().first_block;
}

bool has_packs(const DeviceSegments& segments, const void* operand, DType type) {
  const auto before = static_cast<std::uintptr_t>(segments.first * size_of(type));
  return (reinterpret_cast<std::uintptr_t>(operand) - before) % 16 == 0;
}

}  // namespace phalanx::cuda
