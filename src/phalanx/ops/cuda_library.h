#pragma once
// CUDA for the program. The backend, its kernels and the driver are a shared object that is opened
// when a run asks for it: cuBLASLt has half a gigabyte, and most machines have no such device.
// libphalanx_cuda.so is for devices; libphalanx_cuda_emulated.so, which is built with the tests,
// for the emulated machine (docs/cuda.md).

#include <cstdint>
#include <memory>
#include <string>

#include "phalanx/cuda/driver.h"
#include "phalanx/ops/backend.h"
#include "phalanx/ops/device_check.h"

namespace phalanx {

// What the shared objects export: one function of this type and name, which answers null for
// another version than its own.
struct CudaInterface;
using CudaInterfaceOf = const CudaInterface* (*)(int version);
inline constexpr const char* kCudaInterfaceOf = "phalanx_cuda_interface";
// Another one for every change of the table, or of what its functions take or return.
inline constexpr int kCudaInterfaceVersion = 6;

struct CudaInterface {
  int (*device_count)();  // 0 where there is no device, or no driver
  cuda::DriverFacts (*driver_facts)();
  cuda::Facts (*facts)(int device);
  // For arenas; they must outlive them.
  std::unique_ptr<ArenaMemory> (*device_memory)(int device);
  std::unique_ptr<ArenaMemory> (*pinned_memory)();
  // `note` is called after every op and wait (base/progress.h). UnavailableError without the
  // device.
  std::unique_ptr<Backend> (*backend)(int device, void (*note)() noexcept);
  // The family of its products, which a checkpoint records: "cuda-sm90-lt130100".
  std::string (*products)(int device);
  // Of the backend on this device, for a plan.
  std::unique_ptr<const WorkspaceSizes> (*workspace_sizes)(int device);
  // A part of a selftest (ops/device_check.h).
  void (*check)(DevicePart part, const DeviceCheckOptions& options, CheckSink& sink);
};

enum class CudaMachine : std::uint8_t { kDevice, kEmulated };

// Opens the shared object unless it is open. SystemError if it is missing or of another version.
const CudaInterface& cuda_interface(CudaMachine machine);

// Of one that has this version.
const CudaInterface& open_cuda_interface(CudaMachine machine, int version);

}  // namespace phalanx
