#include "phalanx/ops/named_devices.h"

#include <algorithm>
#include <array>

#include "phalanx/cuda/lt_workspace.h"
#include "phalanx/ops/cuda/workspace_sizes.h"

namespace phalanx {
namespace {

// Data sheets count in powers of ten.
constexpr std::int64_t kGigabyte = 1'000'000'000;

constexpr std::array kDevices = {
    NamedDevice{"cuda:a100-40g", "NVIDIA A100", 8, 0, 40 * kGigabyte},
    NamedDevice{"cuda:a100-80g", "NVIDIA A100", 8, 0, 80 * kGigabyte},
    NamedDevice{"cuda:h100-80g", "NVIDIA H100", 9, 0, 80 * kGigabyte},
    NamedDevice{"cuda:h200-141g", "NVIDIA H200", 9, 0, 141 * kGigabyte},
    NamedDevice{"cuda:b200-180g", "NVIDIA B200", 10, 0, 180 * kGigabyte},
    NamedDevice{"cuda:l40s-48g", "NVIDIA L40S", 8, 9, 48 * kGigabyte},
    NamedDevice{"cuda:rtx4090-24g", "NVIDIA GeForce RTX 4090", 8, 9, 24 * kGigabyte},
};

}  // namespace

std::span<const NamedDevice> named_devices() { return kDevices; }

const NamedDevice* named_device(std::string_view name) {
  const auto found = std::ranges::find(kDevices, name, &NamedDevice::name);
  return found == kDevices.end() ? nullptr : &*found;
}

std::unique_ptr<const WorkspaceSizes> workspace_sizes_of(const NamedDevice& device) {
  return cuda_workspace_sizes({.product_workspace_bytes = cuda::lt_workspace_bytes(device.major)});
}

}  // namespace phalanx
