#pragma once
// The scratch memory of products on a device (Lt::workspace_bytes), also for plans without one.

#include <cstdint>

namespace phalanx::cuda {

// `major` is of the device's compute capability.
constexpr std::int64_t lt_workspace_bytes(int major) {
  return std::int64_t{major >= 9 ? 32 : 4} << 20;
}

}  // namespace phalanx::cuda
