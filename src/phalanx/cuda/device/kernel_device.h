#pragma once
// A kernel's instance as nvcc compiles it. Read through kernel.h.

#include "phalanx/cuda/simt.h"

#if defined(__CUDACC__)

namespace phalanx::cuda {

struct Kernel {
  const char* name;
  const void* entry;  // what the runtime knows it by
};

template <typename K>
__global__ void __launch_bounds__(K::kThreads)
    kernel_entry(const __grid_constant__ typename K::Params params) {
  Thread thread;
  K::run(thread, params);
}

}  // namespace phalanx::cuda

#define PHALANX_KERNEL(...)                                                                \
  template <>                                                                              \
  const phalanx::cuda::Kernel* phalanx::cuda::kernel_of<__VA_ARGS__>() {                   \
    static const Kernel kernel{#__VA_ARGS__,                                               \
                               reinterpret_cast<const void*>(&kernel_entry<__VA_ARGS__>)}; \
    return &kernel;                                                                        \
  }

#endif  // defined(__CUDACC__)
