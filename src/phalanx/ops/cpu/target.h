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

// The best that this processor and the operating system have; asks the system for AMX's tiles.
Target best_target();

// The targets whose kernels are in this build: plans can be made for them on any machine.
std::vector<Target> targets_of_build();

// The target of that name, the value of `flag`. ConfigError for an unknown name, and for a target
// whose kernels are not in this build.
Target target_named(std::string_view flag, std::string_view name);

// The target that the variable's `value` names; the best one if it is empty. ConfigError for an
// unknown name, and for a target that this machine does not have.
Target requested_target(std::string_view value);

// The target that kernels use. The first call reads the variable; making a device calls it, before
// any kernel runs. Errors as requested_target().
Target active_target();

// "amx", or "avx2 (PHALANX_CPU_TARGET; the best here is amx)".
std::string describe_active_target();

// All targets that this machine has, in the order of the list, and their names.
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
