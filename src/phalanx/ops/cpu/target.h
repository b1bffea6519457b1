#pragma once
// Which of the processor's instruction sets the kernels use. The environment variable
// PHALANX_CPU_TARGET names another than the best: "avx2" computes on an AVX-512 machine what an
// AVX2 machine would.

#include <string>
#include <string_view>
#include <vector>

namespace phalanx::cpu {

// Each includes those before it. kScalar is what the compiler makes for any processor of its kind.
enum class Target { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx };

inline constexpr const char* kTargetVariable = "PHALANX_CPU_TARGET";

// "scalar", "avx2", "avx512", "avx512_bf16", "amx": what the variable takes.
std::string_view name_of(Target target);

// The last of the list that this processor and its kernel have; AMX's tiles are asked for here.
Target best_target();

// Those whose kernels are in this build, whatever the machine has: what a plan may be made for.
std::vector<Target> targets_of_build();

// The target of that name, which `flag` was given. ConfigError for a name that is none, and for a
// target whose kernels this build has not.
Target target_named(std::string_view flag, std::string_view name);

// What `value`, of the variable, stands for: the best where it is empty. ConfigError for a name
// that is none, and for a target that this machine has not.
Target requested_target(std::string_view value);

// What kernels use: the variable's, read at the first call, which whoever makes a device has made
// before the first kernel. Errors as requested_target().
Target active_target();

// "amx", or "avx2 (PHALANX_CPU_TARGET; the best here is amx)".
std::string describe_active_target();

// All that this machine has, by the list, and their names.
std::vector<Target> targets_here();
std::vector<std::string> names_of_targets_here();

// For tests: until it is destroyed, another target. No kernel runs meanwhile on other threads.
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
