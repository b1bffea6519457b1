#pragma once
// The instruction sets that the kernels use. The environment variable PHALANX_CPU_TARGET selects
// another one than the best: "avx2" on an AVX-512 machine computes as an AVX2 machine would.

#include <string>
#include <string_view>
#include <vector>

namespace phalanx::cpu {

// Each target includes those before it. kScalar is the baseline of the compiler.
enum class Target { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx };

inline constexpr const char* kTargetVariable = "PHALANX_CPU_TARGET";

// "scalar", "avx2", "avx512", "avx512_bf16", "amx": the variable's values.
std::string_view name_of(Target target);

// The best target of this processor and operating system; asks the system for AMX's tiles.
Target best_target();

// The targets whose kernels are in this build. Any machine can plan for them.
std::vector<Target> targets_of_build();

// The target called `name`, the value of `flag`. ConfigError if the name is unknown or its kernels
// are not in this build.
Target target_named(std::string_view flag, std::string_view name);

// The target that the variable's `value` names, or the best one if empty. ConfigError if the name
// is unknown or this machine lacks the target.
Target requested_target(std::string_view value);

// The target that kernels use. The first call reads the variable; creating a device calls it before
// any kernel runs. Throws as requested_target().
Target active_target();

// "amx", or "avx2 (PHALANX_CPU_TARGET; the best here is amx)".
std::string describe_active_target();

// All targets of this machine, in ascending order, and their names.
std::vector<Target> targets_here();
std::vector<std::string> names_of_targets_here();

// For tests: kernels use another target while this object lives. No other thread may run a kernel.
class ForcedTarget {
 public:
  explicit ForcedTarget(Target target);
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
  ~ForcedTarget();

 private:
  Target before_;
};

}  // namespace phalanx::cpu
