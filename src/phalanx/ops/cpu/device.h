#pragma once
// What the CPU kernels need to know of the machine and of the run.

namespace phalanx::cpu {

// How 16-bit operands of matrix products are multiplied: converted to fp32 (in counted workspace),
// or as bf16 with fp32 accumulation. Part of a run's identity: another choice means other bits.
enum class ProductPrecision { kFp32, kBf16, kAmx };

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
};

// A device for `threads` OpenMP threads.
inline CpuDevice make_device(int threads, ProductPrecision products) { return {threads, products}; }

}  // namespace phalanx::cpu
