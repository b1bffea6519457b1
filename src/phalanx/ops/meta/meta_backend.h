#pragma once
// The planning backend: computes nothing and allocates nothing. It asks the target machine's
// kernels for their scratch sizes, so that a program run on planning arenas leaves the high-water
// marks the real run will have.

#include <memory>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx {

// Plans for the CPU kernels on the processor that `device` names.
std::unique_ptr<Backend> make_meta_backend(const cpu::CpuDevice& device);

}  // namespace phalanx
