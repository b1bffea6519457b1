#include "phalanx/ops/device_choice.h"

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"

namespace phalanx {

std::optional<CudaPlace> cuda_place(std::string_view name, int device) {
  if (name == "cpu") return std::nullopt;
  PHALANX_CHECK(name == "cuda" || name == "cuda-emulated", "--device {}", name);
  return CudaPlace{name == "cuda" ? CudaMachine::kDevice : CudaMachine::kEmulated, device};
}

void expect_device(const CudaPlace& place) {
  const CudaInterface& cuda = cuda_interface(place.machine);
  if (place.device < cuda.device_count()) return;
  throw UnavailableError(
      "--device cuda: there is no CUDA device {}: the driver shows {} (without a driver none; "
      "CUDA_VISIBLE_DEVICES hides others)",
      place.device, cuda.device_count());
}

std::unique_ptr<Backend> DeviceChoice::make_backend(std::int64_t threads) const {
  PHALANX_CHECK(named == nullptr, "{} is for plans", named->name);
  if (cuda) return cuda_interface(cuda->machine).backend(cuda->device, note_progress);
  return make_cpu_backend(static_cast<int>(threads), products);
}

std::unique_ptr<Backend> DeviceChoice::make_planning_backend(std::int64_t threads) const {
  if (named != nullptr) return make_meta_backend(workspace_sizes_of(*named));
  if (cuda) return make_meta_backend(cuda_interface(cuda->machine).workspace_sizes(cuda->device));
  return make_meta_backend(cpu_workspace_sizes({static_cast<int>(threads), products, processor}));
}

std::unique_ptr<ArenaMemory> DeviceChoice::make_memory() const {
  return cuda ? cuda_interface(cuda->machine).device_memory(cuda->device) : nullptr;
}

std::optional<std::int64_t> DeviceChoice::free_bytes() const {
  if (!cuda) return std::nullopt;
  return cuda_interface(cuda->machine).facts(cuda->device).free_bytes;
}

}  // namespace phalanx
