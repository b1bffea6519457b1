// What a shared object with the CUDA backend exports.

#include "phalanx/ops/cuda/check/device_checks.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"
#include "phalanx/ops/cuda_library.h"

extern "C" __attribute__((visibility("default"))) const phalanx::CudaInterface*
phalanx_cuda_interface(int version) {
  using namespace phalanx;
  static constexpr CudaInterface kInterface = {
      .device_count = cuda::device_count,
      .driver_facts = cuda::driver_facts,
      .facts = cuda::facts,
      .device_memory = cuda::device_memory,
      .pinned_memory = cuda::pinned_memory,
      .backend = make_cuda_backend,
      .products = cuda::products_of,
      .workspace_sizes = [](int device) { return cuda_workspace_sizes(cuda::sizes_of(device)); },
      .check = cuda::check_device,
  };
  return version == kCudaInterfaceVersion ? &kInterface : nullptr;
}
