#pragma once
// From a table to what kernels read of it. For the .cc files of this folder.

#include "phalanx/ops/cuda/segments-inl.h"
#include "phalanx/ops/cuda/segments.h"

namespace phalanx::cuda {

inline SegmentRows rows_of(const DeviceSegments& segments) {
  return {reinterpret_cast<const ops::Segment*>(segments.device),
          static_cast<std::int64_t>(segments.host.size()), segments.host.front().first_block,
          segments.first};
}

}  // namespace phalanx::cuda
