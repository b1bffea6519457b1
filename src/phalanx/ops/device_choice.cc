#include "phalanx/ops/device_choice.h"

#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"

namespace phalanx {

std::unique_ptr<Backend> DeviceChoice::make_backend(std::int64_t threads) const {
  return make_cpu_backend(static_cast<int>(threads), products);
}

std::unique_ptr<Backend> DeviceChoice::make_planning_backend(std::int64_t threads) const {
  return make_meta_backend(cpu_workspace_sizes({static_cast<int>(threads), products, processor}));
}

}  // namespace phalanx
