#pragma once
// The choice of the family of matrix products of 16-bit operands, and the measured peak rates, with
// which training and benchmarks are compared.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

struct ProductChoice {
  ProductPrecision products = ProductPrecision::kFp32;
  std::string reason;  // for the log

  std::string_view name() const { return name_of(products); }
};

// Whether the active target (target.h) has the family's instructions.
bool has_products(ProductPrecision products);
// The same by the family's name; false for an unknown name.
bool has_products(std::string_view name);
// The names of the families that it has: "fp32, bf16, amx2".
std::string available_products();

// The policy for `requested` = --matmul-precision (auto, fp32, bf16 or amx2) and a run that stores
// bf16 or not. `auto` measures the families for a few milliseconds on one thread, so it does not
// depend on ranks or --threads-per-rank. A family must be 1.2 times as fast as fp32 or the best
// family before it. (bf16 dot products run at 0.5 times fp32's rate on Sapphire and Emerald Rapids
// and at 1.8 times on Zen 5; tiles at 16 times.) ConfigError for a senseless request or a family
// that the processor lacks.
ProductChoice choose_products(std::string_view requested, bool stores_bf16);
// The same for a processor with this target, which may differ from this machine's. `auto` measures
// nothing and takes the target's last family, the fastest on such processors.
ProductChoice choose_products(std::string_view requested, bool stores_bf16, Target target);

// GFLOP/s of multiply-adds; 0 if the target has no such instruction. They are rates that a product
// can reach: on registers for vectors, with loads of random tiles for AMX.
struct Peak {
  double fp32_gflops = 0.0;
  double bf16_gflops = 0.0;  // dot products of AVX512_BF16
  double amx_gflops = 0.0;   // bf16 on AMX's tiles
  // AMX's instruction on registers of zeros. No product reaches it: with random tiles the processor
  // slows its clock (to 81 % on an Emerald Rapids).
  double amx_instruction_gflops = 0.0;

  double of(ProductPrecision products) const;
  // The rate of the instruction alone; the same as of() but for AMX.
  double of_instruction(ProductPrecision products) const;
};
// The best of short slices on all threads at once; takes a few milliseconds.
Peak measure_peak(int threads);
// The best of `times` measurements, for benchmarks. Work on the sibling hyper-thread, which shares
// AMX, can slow it to a third for milliseconds.
Peak measure_peak(int threads, int times);
// "356 GFLOP/s fp32, 173 GFLOP/s bf16, 5100 GFLOP/s amx2 (with loads of random tiles; 6300 of the
// instruction alone)": the rates above 0.
std::string to_text(const Peak& peak);

// The instruction set extensions that kernels use: "avx2", "fma", ...
std::vector<std::string> processor_features();

}  // namespace phalanx::cpu
