#pragma once
// ops/grouped_activation.h on a device. Operands of one call have one storage type.

#include "phalanx/ops/activation.h"
#include "phalanx/ops/cuda/grouped_linear.h"

namespace phalanx::cuda {

struct GroupedActivationCall {
  GroupedRows groups;
  std::int64_t columns = 0;  // of y
  ops::ActivationKind kind = ops::ActivationKind::kSilu;
  bool gated = false;
  TypedRows x;
  TypedRows bias;                        // a row for each group; may be absent
  const float* probabilities = nullptr;  // of rows; may be null
};

void grouped_activation_forward(const CudaContext& context, const GroupedActivationCall& call,
                                const TypedRows& y);
// dx may be x, or dy where nothing is gated.
void grouped_activation_backward(const CudaContext& context, const GroupedActivationCall& call,
                                 const TypedRows& dx, const TypedRows& dy, float* dprobabilities);

}  // namespace phalanx::cuda
