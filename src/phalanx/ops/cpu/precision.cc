#include "phalanx/ops/cpu/precision.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/threads.h"
#include "phalanx/ops/cpu/multiply_add.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {
namespace {

// Measured ratios of rates are 0.5, 1.8 and 16.
constexpr double kWorthwhileRatio = 1.2;

struct Family {
  ProductPrecision products;
  Target needs;
  double (*flops_of_slice)();
  const char* instructions;
  double (*flops_of_instruction)();  // on registers, if that is another loop
};
constexpr std::array<Family, 3> kFamilies = {{
    {ProductPrecision::kFp32, Target::kScalar, multiply_adds_f32, "fp32", nullptr},
    {ProductPrecision::kBf16, Target::kAvx512Bf16, multiply_adds_bf16, "bf16 dot products",
     nullptr},
    {ProductPrecision::kAmx, Target::kAmx, multiply_adds_loaded_amx, "AMX", multiply_adds_amx},
}};

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(
      kFamilies, name, [](const Family& family) { return name_of(family.products); });
  return found == kFamilies.end() ? nullptr : &*found;
}

const Family& family_of(ProductPrecision products) {
  return kFamilies[static_cast<std::size_t>(products)];
}

// FLOP/s of one slice on the calling thread.
double rate_of_slice(double (*slice)()) {
  const auto start = std::chrono::steady_clock::now();
  const double flops = slice();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return flops / elapsed.count();
}

using Rates = std::array<double, kFamilies.size()>;

// The best slices on the calling thread. Families take turns, so a disturbance slows all of them.
Rates best_rates() {
  constexpr int kSlices = 24;
  Rates best{};
  for (int slice = 0; slice < kSlices; ++slice) {
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
      if (!has_products(kFamilies[i].products)) continue;
      best[i] = std::max(best[i], rate_of_slice(kFamilies[i].flops_of_slice));
    }
  }
  return best;
}

// Best GFLOP/s of `threads` threads at once, each in its own best slice.
double best_gflops(int threads, double (*slice)()) {
  constexpr int kSlices = 24;
  std::vector<double> best(static_cast<std::size_t>(threads));
  parallel_for(threads, threads, [&](std::int64_t thread) {
    double& of_thread = best[static_cast<std::size_t>(thread)];
    for (int i = 0; i < kSlices; ++i) of_thread = std::max(of_thread, rate_of_slice(slice));
  });
  return std::accumulate(best.begin(), best.end(), 0.0) * 1e-9;
}

bool has_products(ProductPrecision products, Target target) {
  return target >= family_of(products).needs;
}

std::string products_of(Target target) {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    if (target >= family.needs) names.push_back(name_of(family.products));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// The named family, or fp32 if bf16 products are impossible; nothing if rates must be compared.
// `description` describes the target.
std::optional<ProductChoice> only_choice(std::string_view requested, bool stores_bf16,
                                         Target target, std::string_view description) {
  if (const Family* const named = find_family(requested)) {
    if (named->products != ProductPrecision::kFp32 && !stores_bf16) {
      throw ConfigError("--matmul-precision {} multiplies operands stored as bf16: add --bf16",
                        requested);
    }
    if (!has_products(named->products, target)) {
      throw ConfigError(
          "--matmul-precision {}: target {} has not the instructions; it has {} (a run recorded "
          "with other products gives other bits)",
          requested, description, products_of(target));
    }
    return ProductChoice{named->products, "requested"};
  }
  if (requested != "auto") {
    throw ConfigError("--matmul-precision {}: use auto, fp32, bf16 or amx2", requested);
  }
  if (!stores_bf16) return ProductChoice{ProductPrecision::kFp32, "nothing is stored as bf16"};
  if (!has_products(ProductPrecision::kBf16, target)) {
    return ProductChoice{ProductPrecision::kFp32, "the processor has no bf16 products"};
  }
  return std::nullopt;
}

// Chooses the last family that is clearly faster than the best family before it.
ProductChoice fastest() {
  const Rates rates = best_rates();
  std::size_t best = 0;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (rates[i] > kWorthwhileRatio * rates[best]) best = i;
  }
  std::vector<std::string> measured;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (rates[i] == 0.0) continue;
    measured.push_back(fmt::format("{} at {:.2f}", kFamilies[i].instructions, rates[i] / rates[0]));
  }
  return {kFamilies[best].products,
          fmt::format("measured, in terms of fp32's rate: {}", fmt::join(measured, ", "))};
}

}  // namespace

bool has_products(ProductPrecision products) { return has_products(products, active_target()); }

bool has_products(std::string_view name) {
  const Family* family = find_family(name);
  return family != nullptr && has_products(family->products);
}

std::string available_products() { return products_of(active_target()); }

double Peak::of(ProductPrecision products) const {
  const std::array<double, kFamilies.size()> gflops = {fp32_gflops, bf16_gflops, amx_gflops};
  return gflops[static_cast<std::size_t>(products)];
}

double Peak::of_instruction(ProductPrecision products) const {
  return products == ProductPrecision::kAmx ? amx_instruction_gflops : of(products);
}

Peak measure_peak(int threads) {
  // Checks the limit on threads first.
  expect_threads(threads - 1);
  const auto measured = [&](ProductPrecision products) {
    if (!has_products(products)) return 0.0;
    return best_gflops(threads, family_of(products).flops_of_slice);
  };
  const Family& amx = family_of(ProductPrecision::kAmx);
  return {.fp32_gflops = measured(ProductPrecision::kFp32),
          .bf16_gflops = measured(ProductPrecision::kBf16),
          .amx_gflops = measured(ProductPrecision::kAmx),
          .amx_instruction_gflops = has_products(ProductPrecision::kAmx)
                                        ? best_gflops(threads, amx.flops_of_instruction)
                                        : 0.0};
}

Peak measure_peak(int threads, int times) {
  Peak best;
  for (int i = 0; i < times; ++i) {
    const Peak peak = measure_peak(threads);
    best = {.fp32_gflops = std::max(best.fp32_gflops, peak.fp32_gflops),
            .bf16_gflops = std::max(best.bf16_gflops, peak.bf16_gflops),
            .amx_gflops = std::max(best.amx_gflops, peak.amx_gflops),
            .amx_instruction_gflops =
                std::max(best.amx_instruction_gflops, peak.amx_instruction_gflops)};
  }
  return best;
}

std::string to_text(const Peak& peak) {
  std::vector<std::string> rates;
  for (const Family& family : kFamilies) {
    const double gflops = peak.of(family.products);
    if (gflops == 0.0) continue;
    rates.push_back(fmt::format("{:.0f} GFLOP/s {}", gflops, name_of(family.products)));
    if (family.flops_of_instruction != nullptr) {
      rates.back() += fmt::format(" (with loads of random tiles; {:.0f} of the instruction alone)",
                                  peak.of_instruction(family.products));
    }
  }
  return fmt::format("{}", fmt::join(rates, ", "));
}

ProductChoice choose_products(std::string_view requested, bool stores_bf16) {
  const auto only = only_choice(requested, stores_bf16, active_target(), describe_active_target());
  return only ? *only : fastest();
}

ProductChoice choose_products(std::string_view requested, bool stores_bf16, Target target) {
  if (const auto only = only_choice(requested, stores_bf16, target, name_of(target))) return *only;
  return {has_products(ProductPrecision::kAmx, target) ? ProductPrecision::kAmx
                                                       : ProductPrecision::kBf16,
          "the fastest of such processors"};
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
  add(best_target() == Target::kAmx, "amx_bf16");
#endif
  return features;
}

}  // namespace phalanx::cpu
