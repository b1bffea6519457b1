#pragma once
// Launching kernels. A kernel's instances stand in a file x.cu, as lines PHALANX_KERNEL(K), which
// is compiled by nvcc and by the host's compiler: each defines kernel_of<K>() in its way. Who
// launches (x.cc) is compiled by the host's compiler alone.

#include "phalanx/cuda/driver.h"
#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

template <typename K>
const Kernel* kernel_of();

// Enqueues a kernel; nothing if the grid has no block.
template <typename K>
void launch(Queue queue, Grid grid, const typename K::Params& params) {
  static_assert(std::is_trivially_copyable_v<typename K::Params> &&
                sizeof(typename K::Params) <= 4096);
  static_assert(K::kThreads % 32 == 0 && K::kThreads >= 32 && K::kThreads <= 1024);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  launch(queue, *kernel_of<K>(), grid, {K::kThreads, K::shared_bytes(params)}, &params,
         sizeof(params));
}

}  // namespace phalanx::cuda

#if defined(__CUDACC__)
#include "phalanx/cuda/device/kernel_device.h"
#else
#include "phalanx/cuda/emulated/kernel_emulated.h"
#endif
