#pragma once
// Eight neighbouring elements as floats: what a thread works on. Kernels are read by nvcc and by
// the host's compiler (cuda/simt.h).

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// Eight elements as they lie in memory: who loads several before the first is converted waits once
// for all.
template <typename T>
struct Stored8 {
  static constexpr int kPack = sizeof(T) == 2 ? 8 : 4;
  Pack<T, kPack> parts[8 / kPack];
};
// Elements i .. i + 7 of x; those from `end` on are 0. `packed`: their address is a multiple of 16.
template <typename T>
PHALANX_DEVICE void load_stored8(const T* x, std::int64_t i, std::int64_t end, bool packed,
                                 Stored8<T>& to) {
  constexpr int kPack = Stored8<T>::kPack;
  if (packed && i + 8 <= end) {
#pragma unroll
    for (int part = 0; part < 8 / kPack; ++part) {
      to.parts[part] = load_pack<kPack>(x + i + part * kPack);
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) to.parts[e / kPack].at[e % kPack] = i + e < end ? x[i + e] : T{};
}
template <typename T>
PHALANX_DEVICE void to_floats(const Stored8<T>& from, float (&to)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    to[e] = to_float(from.parts[e / Stored8<T>::kPack].at[e % Stored8<T>::kPack]);
  }
}

// load_stored8, then to_floats.
template <typename T>
PHALANX_DEVICE void load8(const T* x, std::int64_t i, std::int64_t end, bool packed,
                          float (&to)[8]) {
  Stored8<T> stored;
  load_stored8(x, i, end, packed, stored);
  to_floats(stored, to);
}

// Rounds and stores those that are in front of `end`.
template <typename T>
PHALANX_DEVICE void store8(T* x, std::int64_t i, std::int64_t end, bool packed,
                           const float (&from)[8]) {
  constexpr int kPack = sizeof(T) == 2 ? 8 : 4;
  if (packed && i + 8 <= end) {
    if constexpr (std::is_same_v<T, bf16>) {
      // One instruction rounds two.
      Pack<std::uint32_t, 4> pairs;
#pragma unroll
      for (int e = 0; e < 4; ++e) pairs.at[e] = pack_bf16(from[2 * e], from[2 * e + 1]);
      store_pack<4>(reinterpret_cast<std::uint32_t*>(x + i), pairs);
    } else {
#pragma unroll
      for (int part = 0; part < 8 / kPack; ++part) {
        Pack<T, kPack> pack;
#pragma unroll
        for (int e = 0; e < kPack; ++e) pack.at[e] = round_to<T>(from[part * kPack + e]);
        store_pack<kPack>(x + i + part * kPack, pack);
      }
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (i + e < end) x[i + e] = round_to<T>(from[e]);
  }
}

// A row and the first of 8 columns in it.
struct RowPlace {
  std::int64_t r;
  std::int64_t i;
};
// Of the n-th pack of rows with `packs` packs each. A division of 64 bits costs as much as the rest
// of a small kernel.
PHALANX_DEVICE RowPlace place_of_pack(std::int64_t n, std::int64_t packs) {
  if (((n | packs) >> 32) == 0) {
    const auto small = static_cast<std::uint32_t>(n);
    const auto of_row = static_cast<std::uint32_t>(packs);
    const std::uint32_t r = small / of_row;
    return {r, (small - r * of_row) * std::int64_t{8}};
  }
  const std::int64_t r = n / packs;
  return {r, (n - r * packs) * 8};
}

}  // namespace phalanx::cuda
