#pragma once
// ops/norm.h on a device. Operands are [rows, places, columns] with a weight for all places: 1
// place is a matrix, several are the heads of a row. Statistics are [places, rows].

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t places = 1;
  std::int64_t columns = 0;
};

// An operand with elements between rows and between places.
struct NormOperand {
  TypedAddress data;
  std::int64_t row_stride = 0;
  std::int64_t place_stride = 0;
};

struct NormForwardCall {
  NormShape shape;
  NormOperand y;
  NormOperand x;  // as y, or f32
  TypedAddress weight;
  TypedAddress bias;      // absent in RMS norms
  float* mean = nullptr;  // null: an RMS norm
  float* rstd = nullptr;
  double epsilon = 1e-5;
  bool zero_centred = false;
};
void norm_forward(const CudaContext& context, const NormForwardCall& call);
// y again from mean and rstd, bit for bit.
void norm_apply(const CudaContext& context, const NormForwardCall& call);

struct NormBackwardCall {
  NormShape shape;
  NormOperand dx;  // as x; may be residual
  float* dweight = nullptr;
  float* dbias = nullptr;  // null in RMS norms
  NormOperand dy;
  NormOperand x;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  TypedAddress weight;
  bool zero_centred = false;
  NormOperand residual;  // may be absent
};
void norm_backward(const CudaContext& context, const NormBackwardCall& call);

}  // namespace phalanx::cuda
