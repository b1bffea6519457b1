#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

std::byte* take_scratch(const CudaContext& context, std::string_view op, std::int64_t bytes) {
  PHALANX_CHECK(bytes <= context.scratch_bytes, "{}: {} bytes of scratch memory, {} are needed", op,
                context.scratch_bytes, bytes);
  return context.scratch;
}

}  // namespace phalanx::cuda
