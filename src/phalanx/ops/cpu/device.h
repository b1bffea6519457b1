#pragma once
// Properties of the machine and of the run that CPU kernels depend on.

#include <cstdint>
#include <string_view>

#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

// Families of matrix products of 16-bit operands: converted to fp32 (in counted workspace), bf16 by
// AVX512_BF16's dot products, bf16 by AMX's tiles. The last two sum in fp32, each in its own order.
// Another family gives other bits, so a checkpoint records it. Another order of sums in the last
// two needs another name: `amx2` is the second of AMX's tiles. Fused attention of bf16 is of the
// same family.
enum class ProductPrecision { kFp32, kBf16, kAmx };

// "fp32", "bf16", "amx2": what --matmul-precision takes and a checkpoint records.
constexpr std::string_view name_of(ProductPrecision products) {
  switch (products) {
    case ProductPrecision::kFp32:
      return "fp32";
    case ProductPrecision::kBf16:
      return "bf16";
    case ProductPrecision::kAmx:
      return "amx2";
  }
  return "";
}

// Cache sizes, from which kernels choose block sizes. Results do not depend on them.
struct Caches {
  std::int64_t second_level_bytes = std::int64_t{1} << 20;

  friend bool operator==(const Caches&, const Caches&) = default;
};
// The caches of this machine. A value that the system does not report is the default of Caches.
Caches caches_of_machine();

// The properties of a processor that determine the kernels' scratch sizes. It is a value, so that a
// plan can be made for another processor.
struct Processor {
  Target target = Target::kScalar;
  Caches caches = {};

  friend bool operator==(const Processor&, const Processor&) = default;
};
// This machine: active_target() and its caches.
Processor this_processor();
// A typical processor whose best target is this one; the same on every machine.
Processor usual_processor(Target target);

struct CpuDevice {
  int threads = 1;
  ProductPrecision products = ProductPrecision::kFp32;
  Processor processor = {};
};

// A device for `threads` threads of this machine.
CpuDevice make_device(int threads, ProductPrecision products);

}  // namespace phalanx::cpu
