#pragma once
// What plans count for a CUDA device besides arenas: estimates, on the large side. Nobody has
// measured them.

#include <cstdint>

namespace phalanx {

// The driver, its context, kernels and cuBLASLt, of the device's memory and of the host's.
inline constexpr std::int64_t kDriverBytesOfDevice = 768LL << 20;
inline constexpr std::int64_t kDriverBytesOfHost = 768LL << 20;
// Pinned memory of a rank: the ring of uploads and blocks that are read back.
inline constexpr std::int64_t kPinnedBytes = 64LL << 20;

}  // namespace phalanx
