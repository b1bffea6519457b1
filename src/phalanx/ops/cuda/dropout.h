#pragma once
// ops/dropout.h on a device.

#include "phalanx/base/philox.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct DropoutCall {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double probability = 0.0;  // 0: no random number is drawn
  PhiloxKey key;
  std::uint32_t site = 0;
  const std::int64_t* sample = nullptr;    // [rows], not read with probability 0
  const std::int32_t* position = nullptr;  // [rows]
  std::int64_t first_feature = 0;          // number of column 0, a multiple of 4
};

// out = residual + dropout(x + bias), rounded after each; out may be residual, the bias absent.
void bias_dropout_residual(const CudaContext& context, const DropoutCall& call, TypedAddress out,
                           TypedAddress x, TypedAddress bias, TypedAddress residual);
// dx = the mask times dout; dx may be dout.
void dropout_backward(const CudaContext& context, const DropoutCall& call, TypedAddress dx,
                      TypedAddress dout);

// y = x times factors uniform in [1 - epsilon, 1 + epsilon), f32; y may be x. The call's
// probability is not read.
void jitter(const CudaContext& context, const DropoutCall& call, double epsilon, TypedAddress y,
            TypedAddress x);

}  // namespace phalanx::cuda
