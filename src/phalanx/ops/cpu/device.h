#pragma once
// What the CPU kernels need to know of the machine and of the run.

#include <cstdint>

namespace phalanx::cpu {

// How 16-bit operands of matrix products are multiplied: converted to fp32 (in counted workspace),
// or as bf16 with fp32 accumulation. Part of a run's identity: another choice means other bits.
enum class ProductPrecision { kFp32, kBf16, kAmx };

// Where what is read again should stay. Results do not depend on it.
struct Caches {
  int first_level_ways = 8;
  std::int64_t second_level_bytes = std::int64_t{1} << 20;
};
// Of this machine; what the system does not know is as in Caches().
Caches caches_of_machine();

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
  Caches caches = {};
};

// A device for `threads` OpenMP threads of this machine.
CpuDevice make_device(int threads, ProductPrecision products);

}  // namespace phalanx::cpu
