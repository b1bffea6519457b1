#pragma once
// From a call with dropout to what its kernels take. For the .cc files of this folder.

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cuda/dropout-inl.h"
#include "phalanx/ops/cuda/dropout.h"

namespace phalanx::cuda {

inline DropoutPlan plan_of(const DropoutCall& call) {
  return {call.key.low,
          call.key.high,
          call.site,
          dropout_threshold(call.probability),
          static_cast<float>(1.0 / (1.0 - call.probability)),
          call.probability > 0.0,
          static_cast<std::uint32_t>(call.first_feature / 4)};
}

inline DropoutShape shape_of(const DropoutCall& call, bool packed) {
  return {call.rows, call.columns, ceil_div(call.columns, 8), call.sample, call.position, packed};
}

// Of kernels that are ByEight.
inline Grid grid_of(const DropoutCall& call) {
  return {ceil_div(call.rows * ceil_div(call.columns, 8), ByEight::kThreads)};
}

}  // namespace phalanx::cuda
