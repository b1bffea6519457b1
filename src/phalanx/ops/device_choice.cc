#include "phalanx/ops/device_choice.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

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

namespace {

// Whether CUDA_VISIBLE_DEVICES has a form that a driver knows: "0,1", "GPU-8932f937-...",
// "MIG-...",
// "-1", or nothing. The first entry that it does not know, or none.
std::optional<std::string_view> unknown_entry(std::string_view list) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    const bool is_number = !entry.empty() && entry.find_first_not_of("0123456789") == entry.npos;
    const bool is_name = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!is_number && !is_name && entry != "-1") return entry;
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
  }
  return std::nullopt;
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

}  // namespace

void expect_device(const CudaPlace& place) {
  const char* const visible = std::getenv(kVisibleDevices);
  if (const auto entry = unknown_entry(visible == nullptr ? "" : visible)) {
    throw ConfigError(
        "{}={}: '{}' is no device: give numbers, or names as nvidia-smi -L prints them, with "
        "commas between them and no spaces",
        kVisibleDevices, visible, *entry);
  }
  const CudaInterface& cuda = cuda_interface(place.machine);
  const int count = cuda.device_count();
  if (place.device < count) return;
  const std::string shown =
      visible == nullptr ? "" : fmt::format(" with {}={}", kVisibleDevices, visible);
  if (count > 0) {
    throw UnavailableError(
        "--device cuda: LOCAL_RANK {} computes on device {}, and the driver shows {}{}: start as "
        "many ranks on a host as it has devices",
        place.device, place.device, count, shown);
  }
  const cuda::DriverFacts driver = cuda.driver_facts();
  if (driver.version == 0) {
    throw UnavailableError(
        "--device cuda: this machine has no NVIDIA driver: install one of CUDA {} or later, or "
        "give --device cpu",
        cuda_version(driver.needed));
  }
  if (driver.version < driver.needed) {
    throw UnavailableError(
        "--device cuda: the NVIDIA driver is of CUDA {}, this program needs {} or later: install a "
        "newer one, or give --device cpu",
        cuda_version(driver.version), cuda_version(driver.needed));
  }
  throw UnavailableError("--device cuda: the driver shows no device{} ({}): {}", shown,
                         driver.error,
                         visible == nullptr ? "see what nvidia-smi says, or give --device cpu"
                                            : "name one that nvidia-smi -L prints, or unset it");
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
