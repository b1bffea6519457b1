#pragma once
// What the CPU kernels need to know of the machine and of the run.

#include <cstdint>
#include <string_view>

#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

// The families of matrix products of 16-bit operands: converted to fp32 (in counted workspace), as
// bf16 by AVX512_BF16's dot products, as bf16 by AMX's tiles; the last two sum in fp32, each in an
// order of its own. Part of a run's identity: another family means other bits.
enum class ProductPrecision { kFp32, kBf16, kAmx };

// "fp32", "bf16", "amx": what --matmul-precision takes and a checkpoint records.
constexpr std::string_view name_of(ProductPrecision products) {
  switch (products) {
    case ProductPrecision::kFp32:
      return "fp32";
    case ProductPrecision::kBf16:
      return "bf16";
    case ProductPrecision::kAmx:
      return "amx";
  }
  return "";
}

// Where what is read again should stay. Results do not depend on it.
struct Caches {
  int first_level_ways = 8;
  std::int64_t second_level_bytes = std::int64_t{1} << 20;

  friend bool operator==(const Caches&, const Caches&) = default;
};
// Of this machine; what the system does not know is as in Caches().
Caches caches_of_machine();

// What of a processor decides how much memory kernels take: a value, so that plans can be made for
// one that this machine has not.
struct Processor {
  Target target = Target::kScalar;
  Caches caches = {};

  friend bool operator==(const Processor&, const Processor&) = default;
};
// What kernels run on here: active_target() and the machine's caches.
Processor this_processor();
// A usual one of those that have the target and not the next: the same on every machine.
Processor usual_processor(Target target);

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
  Processor processor = {};
};

// A device for `threads` OpenMP threads of this machine.
CpuDevice make_device(int threads, ProductPrecision products);

}  // namespace phalanx::cpu
