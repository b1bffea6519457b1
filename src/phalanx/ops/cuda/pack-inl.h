#pragma once
// Eight neighbouring elements as floats: what a thread works on. Kernels are read by nvcc and by
// the host's compiler (cuda/simt.h).

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// Elements i .. i + 7 of x; those from `end` on are 0. `packed`: their address is a multiple of 16.
template <typename T>
PHALANX_DEVICE void load8(const T* x, std::int64_t i, std::int64_t end, bool packed,
                          float (&to)[8]) {
  constexpr int kPack = sizeof(T) == 2 ? 8 : 4;
  if (packed && i + 8 <= end) {
#pragma unroll
    for (int part = 0; part < 8 / kPack; ++part) {
      const auto pack = load_pack<kPack>(x + i + part * kPack);
#pragma unroll
      for (int e = 0; e < kPack; ++e) to[part * kPack + e] = to_float(pack.at[e]);
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) to[e] = i + e < end ? to_float(x[i + e]) : 0.0F;
}

// Rounds and stores those that are in front of `end`.
template <typename T>
PHALANX_DEVICE void store8(T* x, std::int64_t i, std::int64_t end, bool packed,
                           const float (&from)[8]) {
  constexpr int kPack = sizeof(T) == 2 ? 8 : 4;
  if (packed && i + 8 <= end) {
#pragma unroll
    for (int part = 0; part < 8 / kPack; ++part) {
      Pack<T, kPack> pack;
#pragma unroll
      for (int e = 0; e < kPack; ++e) pack.at[e] = round_to<T>(from[part * kPack + e]);
      store_pack<kPack>(x + i + part * kPack, pack);
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (i + e < end) x[i + e] = round_to<T>(from[e]);
  }
}

}  // namespace phalanx::cuda
