#pragma once
// The properties of the machine and of the run that CPU kernels depend on.

#include <cstdint>
#include <string_view>

#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

// The families of matrix products of 16-bit operands: converted to fp32 (in counted workspace), as
// bf16 by AVX512_BF16's dot products, as bf16 by AMX's tiles; the last two sum in fp32, each in its
// own order. Part of a run's identity: another family means other bits.
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

// The caches, for which kernels choose sizes of blocks. Results do not depend on them.
struct Caches {
  int first_level_ways = 8;
  std::int64_t second_level_bytes = std::int64_t{1} << 20;

  friend bool operator==(const Caches&, const Caches&) = default;
};
// The caches of this machine; what the system does not tell is as in Caches().
Caches caches_of_machine();

// The properties of a processor on which the kernels' scratch sizes depend: a value, so that plans
// can be made for a processor that this machine does not have.
struct Processor {
  Target target = Target::kScalar;
  Caches caches = {};

  friend bool operator==(const Processor&, const Processor&) = default;
};
// The processor of this machine: active_target() and its caches.
Processor this_processor();
// A typical processor whose best target is this one: the same on every machine.
Processor usual_processor(Target target);

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
  Processor processor = {};
};

// A device for `threads` OpenMP threads of this machine.
CpuDevice make_device(int threads, ProductPrecision products);

}  // namespace phalanx::cpu
