#pragma once
// The language of kernels. A kernel is a struct that nvcc compiles for the device (simt_device.h)
// and the host's compiler for an emulated machine (simt_emulated.h):
//
//   struct Double {
//     static constexpr int kThreads = 256;  // a multiple of 32, at most 1,024
//     struct Params { float* x; std::int64_t n; };  // trivially copyable, at most 4,096 bytes
//     static std::int64_t shared_bytes(const Params&) { return 0; }
//     PHALANX_DEVICE static void run(Thread& t, const Params& p);
//   };
//
// A thread knows index(), lane(), warp(), threads(), block(d), blocks(d); it meets others in
// sync(), sync_warp(), shuffle(), shuffle_xor(), ballot(), ldmatrix_x4(), mma(): all 32 lanes of a
// warp call them from the same line. Only sync() and sync_warp() order memory. shared<T>(n) carves
// an array out of the launch's shared memory: the same calls in all threads. cp_async16() copies 16
// bytes to shared memory that are there after cp_wait<left>() of the same thread, and after a
// barrier for others. Atomics are of integers and relaxed: results that depend on an order of
// floating-point sums cannot be written.

#include "phalanx/cuda/simt_types.h"

#if defined(__CUDACC__)
#include "phalanx/cuda/simt_device.h"
#else
#include "phalanx/cuda/simt_emulated.h"
#endif

namespace phalanx::cuda {

PHALANX_DEVICE float to_float(float value) { return value; }
PHALANX_DEVICE float to_float(bf16 value) {
  return float_of_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounds to nearest even; NaN becomes the type's positive quiet NaN.
template <typename T>
PHALANX_DEVICE T round_to(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return bf16_of(value);
  } else if constexpr (std::is_same_v<T, fp16>) {
    return fp16_of(value);
  } else {
    return value;
  }
}

// The value after storage as T.
template <typename T>
PHALANX_DEVICE float rounded(float value) {
  return to_float(round_to<T>(value));
}

// erfc(x), to 2^-20 of its value. With t = 1 / (1 + 0.3 |x|), exp(x^2) erfc(|x|) / t is a
// polynomial of t to 2e-8 up to 10.5, where erfc is 0 in fp32 (fitted for the least relative
// error).
PHALANX_DEVICE float erfc_of(float x) {
  constexpr float kLog2e = 1.44269504088896341F;
  constexpr float kLog2eRest = 1.92596299112661746e-8F;
  constexpr float kLn2 = 0.693147180559945309F;
  float a = x < 0.0F ? -x : x;
  a = a > 10.5F ? 10.5F : a;
  const float t = reciprocal_of(fma_of(0.3F, a, 1.0F));
  float sum = fma_of(t, -0.1295541026F, 0.4857270458F);
  sum = fma_of(t, sum, -0.5126469256F);
  sum = fma_of(t, sum, 0.5481842614F);
  sum = fma_of(t, sum, -0.09500746638F);
  sum = fma_of(t, sum, 0.215097175F);
  sum = fma_of(t, sum, 0.1482892166F);
  sum = fma_of(t, sum, 0.1707233292F);
  sum = fma_of(t, sum, 0.169187447F);
  // exp(-x^2) as 2^-power, and what the square and its product with log2(e) lose.
  const float square = a * a;
  const float power = square * kLog2e;
  float lost = fma_of(square, kLog2eRest, fma_of(square, kLog2e, -power));
  lost = fma_of(fma_of(a, a, -square), kLog2e, lost);
  const float exponential = exp2_of(-power);
  const float result = sum * t * fma_of(exponential, -kLn2 * lost, exponential);
  return x < 0.0F ? 2.0F - result : result;
}

// Butterflies: all lanes get the same bits.
template <typename T>
PHALANX_DEVICE T warp_sum(Thread& t, T value) {
  for (int mask = 16; mask > 0; mask /= 2) value += t.shuffle_xor(value, mask);
  return value;
}
template <typename T>
PHALANX_DEVICE T warp_max(Thread& t, T value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const T other = t.shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over all threads of a block: warps by butterfly, then warps in order; every thread gets
// it. `parts` is shared memory of one T per warp; nobody may still read it from before.
template <typename T>
PHALANX_DEVICE T block_sum(Thread& t, T value, T* parts) {
  const T sum = warp_sum(t, value);
  if (t.lane() == 0) parts[t.warp()] = sum;
  t.sync();
  T total = parts[0];
  for (int w = 1; w < t.threads() / 32; ++w) total += parts[w];
  return total;
}

// base/philox.h's words.
PHALANX_DEVICE Words4 philox(std::uint32_t key_low, std::uint32_t key_high, Words4 counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter.at[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter.at[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.at[1] ^ key_low,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.at[3] ^ key_high,
                static_cast<std::uint32_t>(product0)}};
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace phalanx::cuda
