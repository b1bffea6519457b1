#include "phalanx/ops/cpu/target.h"

#include "phalanx/ops/cpu/targets.h"
// targets.h configures Highway, so it comes first.
#include <fmt/ranges.h>
#include <hwy/targets.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "phalanx/base/error.h"

namespace phalanx::cpu {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"scalar", "avx2", "avx512", "avx512_bf16",
                                                    "amx"};

constexpr bool kBuiltAvx2 = (HWY_TARGETS & HWY_AVX2) != 0;
constexpr bool kBuiltAvx512 = kBuiltAvx2 && (HWY_TARGETS & HWY_AVX3) != 0;
// Runs with bf16 kernels use other kernels with AVX-512, so the build must have those.
constexpr Target kLastOfBuild = kBuiltAvx512 ? Target::kAmx
                                : kBuiltAvx2 ? Target::kAvx2
                                             : Target::kScalar;

std::vector<Target> targets_up_to(Target last) {
  std::vector<Target> targets;
  for (int i = 0; i <= static_cast<int>(last); ++i) targets.push_back(static_cast<Target>(i));
  return targets;
}

// The names of the targets up to `last`.
std::span<const std::string_view> names_up_to(Target last) {
  return std::span(kNames).first(static_cast<std::size_t>(last) + 1);
}

#if defined(__x86_64__)
// For features that __builtin_cpu_supports lacks in some supported compilers.
struct CpuidRegisters {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
CpuidRegisters cpuid(unsigned leaf) {
  CpuidRegisters r;
  if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}
bool has_f16c() { return (cpuid(1).c & (1U << 29U)) != 0; }
bool has_lzcnt() { return (cpuid(0x80000001U).c & (1U << 5U)) != 0; }
bool has_amx_instructions() {
  constexpr unsigned kBf16 = 1U << 22U, kTiles = 1U << 24U;
  const unsigned features = cpuid(7).d;
  return (features & kBf16) != 0 && (features & kTiles) != 0;
}

// The system saves tiles (8 KiB of registers) only for processes that asked; an old system refuses.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Highway's requirements for its targets. A build may lack one or both (HWY_TARGETS).
bool has_avx2() {
  return kBuiltAvx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c() &&
         has_lzcnt();
}
bool has_avx512() {
  return kBuiltAvx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

Target detect() {
  if (!has_avx2()) return Target::kScalar;
  if (!has_avx512()) return Target::kAvx2;
  if (!__builtin_cpu_supports("avx512bf16")) return Target::kAvx512;
  return has_amx_instructions() && may_use_tiles() ? Target::kAmx : Target::kAvx512Bf16;
}

// Highway selects kernels for the whole process, so the target is state of the process, not of a
// rank or a device.
void limit_highway(Target target) {
  std::int64_t disabled = 0;
  if (target < Target::kAvx512) disabled |= HWY_AVX3 | HWY_AVX3_DL;
  if (target < Target::kAvx2) disabled |= HWY_AVX2 | HWY_SSE4 | HWY_SSSE3;
  hwy::DisableTargets(disabled);
}
#else
Target detect() { return Target::kScalar; }
void limit_highway(Target /*target*/) {}
#endif

std::string_view variable() {
  const char* const value = std::getenv(kTargetVariable);
  return value == nullptr ? std::string_view() : value;
}

// Only tests change it.
Target& active() {
  static Target target = [] {
    const Target requested = requested_target(variable());
    limit_highway(requested);
    return requested;
  }();
  return target;
}

}  // namespace

std::string_view name_of(Target target) { return kNames[static_cast<std::size_t>(target)]; }

Target best_target() {
  static const Target best = detect();
  return best;
}

Target requested_target(std::string_view value) {
  const auto here = names_up_to(best_target());
  if (value.empty()) return best_target();
  const auto found = std::ranges::find(kNames, value);
  if (found == kNames.end()) {
    throw ConfigError("the environment's {} is '{}', which is no target: this machine has {}",
                      kTargetVariable, value, fmt::join(here, ", "));
  }
  const auto target = static_cast<Target>(found - kNames.begin());
  if (target > best_target()) {
    throw ConfigError("the environment's {} is {}, which this machine has not: it has {}",
                      kTargetVariable, value, fmt::join(here, ", "));
  }
  return target;
}

Target active_target() { return active(); }

std::string describe_active_target() {
  const std::string_view name = name_of(active_target());
  if (variable().empty()) return std::string(name);
  return fmt::format("{} ({}; the best here is {})", name, kTargetVariable, name_of(best_target()));
}

std::vector<Target> targets_of_build() { return targets_up_to(kLastOfBuild); }

Target target_named(std::string_view flag, std::string_view name) {
  for (const Target target : targets_of_build()) {
    if (name_of(target) == name) return target;
  }
  throw ConfigError("{} {}: there are kernels for {}", flag, name,
                    fmt::join(names_up_to(kLastOfBuild), ", "));
}

std::vector<Target> targets_here() { return targets_up_to(best_target()); }

std::vector<std::string> names_of_targets_here() {
  const auto names = names_up_to(best_target());
  return {names.begin(), names.end()};
}

ForcedTarget::ForcedTarget(Target target) : before_(active_target()) {
  PHALANX_CHECK(target <= best_target(), "this machine has no {}", name_of(target));
  active() = target;
  limit_highway(target);
}

ForcedTarget::~ForcedTarget() {
  active() = before_;
  limit_highway(before_);
}

}  // namespace phalanx::cpu
