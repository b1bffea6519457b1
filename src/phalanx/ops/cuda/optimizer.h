#pragma once
// The updates of ops/optimizer.h: all segments in one launch. What changes from step to step lies
// in device memory.

#include "phalanx/ops/cuda/segments.h"

namespace phalanx::cuda {

// Operands of both rules.
struct OptimizerCall {
  DeviceSegments segments;
  const double* settings = nullptr;  // [groups, 2]: rate, weight decay
  const float* factor = nullptr;     // [1]
  const float* skip = nullptr;       // [1]
  float* weight = nullptr;
  TypedAddress storage;  // may be absent
  const float* gradient = nullptr;
};

struct AdamCall {
  OptimizerCall common;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  const double* corrections = nullptr;  // [2]: ops::adam_corrections()
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};
void adam_segments(const CudaContext& context, const AdamCall& call);

struct SgdCall {
  OptimizerCall common;
  float* momentum_buffer = nullptr;  // null without momentum
  double momentum = 0.0;
};
void sgd_segments(const CudaContext& context, const SgdCall& call);

}  // namespace phalanx::cuda
