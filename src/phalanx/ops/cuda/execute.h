#pragma once
// The ops on a CUDA device, one source file per family: execute_<family>.cc. The context's scratch
// has at least workspace_bytes_of bytes, a function of shapes and of the device's sizes alone.

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cuda/context.h"
#include "phalanx/ops/cuda/workspace_sizes.h"

namespace phalanx::cuda {

CudaSizes sizes_of(int device);

#define PHALANX_CUDA_EXECUTE(Op) void execute(const CudaContext& context, const ops::Op& op);
PHALANX_CUDA_OPS(PHALANX_CUDA_EXECUTE)
#undef PHALANX_CUDA_EXECUTE

}  // namespace phalanx::cuda
