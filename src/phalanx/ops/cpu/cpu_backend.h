#pragma once
// The CPU as a backend: kernels by Highway, and by intrinsics for instructions that Highway lacks.

#include <memory>
#include <optional>
#include <string_view>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx {

std::unique_ptr<Backend> make_cpu_backend(int threads, cpu::ProductPrecision products);

// What its kernels take on any processor: for plans.
std::unique_ptr<const WorkspaceSizes> cpu_workspace_sizes(const cpu::CpuDevice& device);

}  // namespace phalanx
