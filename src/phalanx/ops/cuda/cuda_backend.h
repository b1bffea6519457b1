#pragma once
// CUDA as a backend of the op set. What lies behind cuda/driver.h and cuda/lt.h, a device or the
// emulated machine, the linker has chosen. One thread at a time.

#include <memory>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cuda/execute.h"

namespace phalanx {

// A queue of the device for every StreamKind. UnavailableError without driver or device.
std::unique_ptr<Backend> make_cuda_backend(int device);

// For plans. The sizes are sizes_of() a device.
std::unique_ptr<const WorkspaceSizes> cuda_workspace_sizes(const cuda::CudaSizes& sizes);

}  // namespace phalanx
