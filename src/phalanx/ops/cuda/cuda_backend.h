#pragma once
// CUDA as a backend of the op set. What lies behind cuda/driver.h and cuda/lt.h, a device or the
// emulated machine, the linker has chosen. One thread at a time.

#include <memory>
#include <string>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cuda/execute.h"

namespace phalanx {

// A queue of the device for every StreamKind. `note` is called after every op and wait.
// UnavailableError without driver or device.
std::unique_ptr<Backend> make_cuda_backend(int device, void (*note)() noexcept);

namespace cuda {
// "cuda-sm90-lt130100": the device's generation and the version of the library of products, which
// make the bits.
std::string products_of(int device);
}  // namespace cuda

}  // namespace phalanx
