#include "phalanx/nn/constants.h"

namespace phalanx::nn {

Constants::Constants(std::span<const ConstantSpec> specs, Context& context, Arena& arena) {
  for (const ConstantSpec& spec : specs) {
    tensors_.push_back(arena.allocate(spec.dtype, spec.shape));
    spec.fill(context, tensors_.back());
  }
}

}  // namespace phalanx::nn
