#pragma once
// The backward of attention that the fused and the unfused op share. They differ in where
// probabilities come from.

#include <cstdint>

#include "phalanx/ops/cpu/attention_geometry.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

struct AttentionGradients {
  const ops::AttentionInputs& in;
  Tensor dquery, dkey, dvalue, dbias, dout;
  Tensor lse;            // recompute probabilities from it, or
  Tensor probabilities;  // read them
  Tensor delta;          // [b, heads, sq] f32
};

std::int64_t backward_workspace_bytes(const CpuDevice& device, const ops::AttentionInputs& in,
                                      bool bias_gradient);
void run_backward(const CpuDevice& device, const AttentionGradients& gradients, std::byte* scratch);

}  // namespace phalanx::cpu
