#pragma once
// CUDA devices that plans name, so that none need be there: what plans ask of a device, as NVIDIA's
// data sheets have it.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "phalanx/ops/backend.h"

namespace phalanx {

struct NamedDevice {
  std::string_view name;   // of --device: "cuda:h100-80g"
  std::string_view title;  // "NVIDIA H100"
  int major = 0;           // compute capability
  int minor = 0;
  std::int64_t memory_bytes = 0;  // a driver shows some more, or less of what it takes itself
};

// The values of --device: those a run has, and the names of named_devices().
inline constexpr std::string_view kDeviceNames =
    "cpu cuda cuda-emulated cuda:a100-40g cuda:a100-80g cuda:h100-80g cuda:h200-141g "
    "cuda:b200-180g cuda:l40s-48g cuda:rtx4090-24g";

std::span<const NamedDevice> named_devices();
// Null for cpu, cuda, cuda-emulated and every other name.
const NamedDevice* named_device(std::string_view name);

// The scratch memory of its kernels.
std::unique_ptr<const WorkspaceSizes> workspace_sizes_of(const NamedDevice& device);

}  // namespace phalanx
