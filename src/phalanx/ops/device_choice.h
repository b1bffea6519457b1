#pragma once
// The device and the kernels that a run computes with, as a value: rooms that only pass it on need
// not know which devices there are.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cuda_library.h"
#include "phalanx/ops/named_devices.h"

namespace phalanx {

struct CudaPlace {
  CudaMachine machine = CudaMachine::kDevice;
  int device = 0;
};
// Of --device: cpu (nothing), cuda or cuda-emulated.
std::optional<CudaPlace> cuda_place(std::string_view name, int device);
// UnavailableError without such a device.
void expect_device(const CudaPlace& place);

struct DeviceChoice {
  cpu::ProductPrecision products = cpu::ProductPrecision::kFp32;
  // What is planned for; it computes on this machine's processor.
  cpu::Processor processor = cpu::this_processor();
  // Computes there instead.
  std::optional<CudaPlace> cuda = {};
  // Is planned for instead, and cannot compute.
  const NamedDevice* named = nullptr;

  std::unique_ptr<Backend> make_backend(std::int64_t threads) const;
  // Takes the scratch that kernels take on `processor`, the CUDA device or the named one.
  std::unique_ptr<Backend> make_planning_backend(std::int64_t threads) const;
  // Of its arenas, if that is not the host's memory; it must outlive them.
  std::unique_ptr<ArenaMemory> make_memory() const;
  // What is free of that memory; nothing for the host's.
  std::optional<std::int64_t> free_bytes() const;
};

}  // namespace phalanx
