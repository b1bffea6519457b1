#include "phalanx/ops/cpu/precision.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/threads.h"
#include "phalanx/ops/cpu/multiply_add.h"

namespace phalanx::cpu {
namespace {

// The measured ratios lie at 0.5 and 1.8.
constexpr double kWorthwhileRatio = 1.2;

// What oneDNN will use, which also respects its own limit on instruction sets.
Bf16Unit bf16_unit() { return bf16_unit_of(static_cast<unsigned>(dnnl::get_effective_cpu_isa())); }

// Levels are sets of instructions, a bit each.
bool includes(unsigned level, dnnl::cpu_isa known) {
  return (level & static_cast<unsigned>(known)) == static_cast<unsigned>(known);
}

// Best rate of `threads` threads at once, each in its own best slice.
double best_rate(int threads, double (*flops_of_slice)()) {
  constexpr int kSlices = 24;
  // The first threads that a run wants: OpenMP would end the process where they are refused.
  expect_threads(threads - 1);
  double sum = 0.0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    double best = 0.0;
#pragma omp barrier
    for (int slice = 0; slice < kSlices; ++slice) {
      const auto start = std::chrono::steady_clock::now();
      const double flops = flops_of_slice();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      best = std::max(best, flops / elapsed.count());
    }
    sum += best;
  }
  return sum * 1e-9;
}

}  // namespace

// A level that oneDNN learns later holds those that it knows today.
Bf16Unit bf16_unit_of(unsigned level) {
  if (includes(level, dnnl::cpu_isa::avx512_core_amx)) return Bf16Unit::kAmx;
  if (includes(level, dnnl::cpu_isa::avx512_core_bf16)) return Bf16Unit::kAvx512;
  return Bf16Unit::kNone;
}

Peak measure_peak(int threads) {
  Peak peak{.fp32_gflops = best_rate(threads, multiply_adds_f32)};
  if (bf16_unit() != Bf16Unit::kNone) peak.bf16_gflops = best_rate(threads, multiply_adds_bf16);
  return peak;
}

ProductChoice choose_products(std::string_view requested, bool stores_bf16, int threads) {
  const Bf16Unit unit = bf16_unit();
  if (requested == "bf16") {
    if (!stores_bf16) {
      throw ConfigError("--matmul-precision bf16 multiplies operands stored as bf16: add --bf16");
    }
    if (unit == Bf16Unit::kNone) {
      throw ConfigError(
          "--matmul-precision bf16: this processor has neither AVX512_BF16 nor AMX; use "
          "--matmul-precision fp32 (a run recorded with bf16 products gives other bits then)");
    }
    return {ProductPrecision::kBf16, "requested"};
  }
  if (requested == "fp32") return {ProductPrecision::kFp32, "requested"};
  if (requested != "auto") {
    throw ConfigError("--matmul-precision {}: use auto, fp32 or bf16", requested);
  }
  if (!stores_bf16) return {ProductPrecision::kFp32, "nothing is stored as bf16"};
  if (unit == Bf16Unit::kAmx) return {ProductPrecision::kBf16, "the processor has AMX"};
  if (unit == Bf16Unit::kNone) {
    return {ProductPrecision::kFp32, "the processor has no bf16 dot product"};
  }
  const Peak peak = measure_peak(threads);
  const double ratio = peak.bf16_gflops / peak.fp32_gflops;
  return {ratio > kWorthwhileRatio ? ProductPrecision::kBf16 : ProductPrecision::kFp32,
          fmt::format("measured: bf16 dot products run at {:.2f} times fp32's rate", ratio)};
}

std::vector<std::string> processor_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) features.emplace_back(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
  add(bf16_unit() == Bf16Unit::kAmx, "amx_bf16");
#endif
  return features;
}

}  // namespace phalanx::cpu
