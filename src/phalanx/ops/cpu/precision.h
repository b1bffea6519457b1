#pragma once
// What this processor multiplies best: the policy of matrix products of 16-bit operands, and the
// measured peaks that training and benchmarks are compared with.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

struct ProductChoice {
  ProductPrecision products = ProductPrecision::kFp32;
  std::string reason;  // for people

  // "fp32" or "bf16": what a checkpoint records and --matmul-precision takes.
  std::string_view name() const { return products == ProductPrecision::kBf16 ? "bf16" : "fp32"; }
};

// The policy for `requested` = --matmul-precision (auto, fp32 or bf16) and a run that stores bf16
// or not. `auto` takes bf16 products with AMX; with AVX512_BF16 it measures for a few milliseconds
// whether dot products of bf16 outrun fp32 (0.5 times on Sapphire and Emerald Rapids, 1.8 times on
// Zen 5) and wants 1.2 times. ConfigError when the request makes no sense or the processor has no
// bf16 products.
ProductChoice choose_products(std::string_view requested, bool stores_bf16, int threads);

// What multiplies bf16, among the instructions of a level of oneDNN's (a dnnl::cpu_isa).
enum class Bf16Unit { kNone, kAvx512, kAmx };
Bf16Unit bf16_unit_of(unsigned level);

// GFLOP/s of multiply-adds on registers; 0 where there is no such instruction.
struct Peak {
  double fp32_gflops = 0.0;
  double bf16_gflops = 0.0;  // bf16 dot products (AVX-512; AMX is not measured)
};
// The best of short slices on all threads at once; some ten milliseconds.
Peak measure_peak(int threads);

// "avx2", "fma", ...: the extensions that kernels here or in oneDNN make use of.
std::vector<std::string> processor_features();

}  // namespace phalanx::cpu
