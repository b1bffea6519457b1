#pragma once
// The kernels' language on the device: the only PTX. Read through simt.h.

#include "phalanx/cuda/simt_types.h"

#if defined(__CUDACC__)

namespace phalanx::cuda {

PHALANX_DEVICE float float_of_bits(std::uint32_t bits) { return __uint_as_float(bits); }
PHALANX_DEVICE std::uint32_t bits_of_float(float value) { return __float_as_uint(value); }
PHALANX_DEVICE bf16 bf16_of(float value) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
PHALANX_DEVICE fp16 fp16_of(float value) {
  fp16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
PHALANX_DEVICE float to_float(fp16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
PHALANX_DEVICE float fma_of(float a, float b, float c) { return __fmaf_rn(a, b, c); }
PHALANX_DEVICE double fma_of(double a, double b, double c) { return __fma_rn(a, b, c); }
PHALANX_DEVICE float sqrt_of(float x) { return __fsqrt_rn(x); }
PHALANX_DEVICE double sqrt_of(double x) { return __dsqrt_rn(x); }
PHALANX_DEVICE float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
PHALANX_DEVICE float reciprocal_of(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
PHALANX_DEVICE float rsqrt_of(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
PHALANX_DEVICE double exp_of(double x) { return exp(x); }
PHALANX_DEVICE double log_of(double x) { return log(x); }
PHALANX_DEVICE double sin_of(double x) { return sin(x); }
PHALANX_DEVICE double cos_of(double x) { return cos(x); }

// Two floats as bf16, the first in the low half.
PHALANX_DEVICE std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

template <int kSize, typename T>
PHALANX_DEVICE Pack<T, kSize> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kSize>*>(from);
}
template <int kSize, typename T>
PHALANX_DEVICE void store_pack(T* to, const Pack<T, kSize>& pack) {
  *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
}

class Thread {
 public:
  PHALANX_DEVICE int index() const { return static_cast<int>(threadIdx.x); }
  PHALANX_DEVICE int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  PHALANX_DEVICE int warp() const { return static_cast<int>(threadIdx.x) / 32; }
  PHALANX_DEVICE int threads() const { return static_cast<int>(blockDim.x); }
  PHALANX_DEVICE std::int64_t block(int d = 0) const {
    return d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z;
  }
  PHALANX_DEVICE std::int64_t blocks(int d = 0) const {
    return d == 0 ? gridDim.x : d == 1 ? gridDim.y : gridDim.z;
  }

  PHALANX_DEVICE void sync() { __syncthreads(); }
  PHALANX_DEVICE void sync_warp() { __syncwarp(); }
  template <typename T>
  PHALANX_DEVICE T shuffle(T value, int from) {
    return __shfl_sync(0xffffffffU, value, from);
  }
  template <typename T>
  PHALANX_DEVICE T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  PHALANX_DEVICE std::uint32_t ballot(bool yes) { return __ballot_sync(0xffffffffU, yes); }

  template <typename T>
  PHALANX_DEVICE T* shared(std::int64_t n) {
    extern __shared__ __align__(128) unsigned char phalanx_shared[];
    T* array = reinterpret_cast<T*>(phalanx_shared + carved_);
    carved_ += (static_cast<std::uint32_t>(n * sizeof(T)) + 127U) / 128U * 128U;
    return array;
  }

  PHALANX_DEVICE void cp_async16(void* to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
  }
  PHALANX_DEVICE void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kLeft>
  PHALANX_DEVICE void cp_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
  }

  PHALANX_DEVICE void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
  PHALANX_DEVICE void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
  // d += a b, m16n8k16, sums in fp32.
  template <typename T>
  PHALANX_DEVICE void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                          std::uint32_t b1) {
    if constexpr (std::is_same_v<T, bf16>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
      static_assert(std::is_same_v<T, fp16>);
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
  }

  PHALANX_DEVICE std::uint32_t atomic_add(std::uint32_t* to, std::uint32_t value) {
    return atomicAdd(to, value);
  }
  PHALANX_DEVICE std::uint64_t atomic_add(std::uint64_t* to, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(to), value);
  }
  PHALANX_DEVICE std::uint32_t atomic_or(std::uint32_t* to, std::uint32_t value) {
    return atomicOr(to, value);
  }
  PHALANX_DEVICE std::uint64_t atomic_min(std::uint64_t* to, std::uint64_t value) {
    return atomicMin(reinterpret_cast<unsigned long long*>(to), value);
  }

 private:
  PHALANX_DEVICE static std::uint32_t shared_address(const void* at) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  }

  std::uint32_t carved_ = 0;
};

}  // namespace phalanx::cuda

#endif  // defined(__CUDACC__)
