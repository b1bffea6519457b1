#pragma once
// A kernel's instance for the emulated machine. Read through kernel.h.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

struct Kernel {
  const char* name;
  void (*run)(Thread&, const void* params);
};

}  // namespace phalanx::cuda

#define PHALANX_KERNEL(...)                                                                    \
  template <>                                                                                  \
  const phalanx::cuda::Kernel* phalanx::cuda::kernel_of<__VA_ARGS__>() {                       \
    static const Kernel kernel{#__VA_ARGS__, [](Thread& thread, const void* params) {          \
                                 using Instance = __VA_ARGS__;                                 \
                                 Instance::run(thread,                                         \
                                               *static_cast<const Instance::Params*>(params)); \
                               }};                                                             \
    return &kernel;                                                                            \
  }
