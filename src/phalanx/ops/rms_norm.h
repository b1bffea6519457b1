#pragma once
// Root mean square normalisation over the last dimension with fp32 statistics: y = x rstd weight,
// rstd = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich, 2019). There is one rounding, to y. The
// stream that is normalised (x, and in backward dx and residual) has the storage type of y and dy,
// or is f32. A zero-centred weight is kept less 1: y = x rstd (1 + weight).

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct RmsNormForward {
  Tensor y;       // [rows, h]
  Tensor rstd;    // [rows], f32
  Tensor x;       // [rows, h]
  Tensor weight;  // [h]
  double epsilon = 1e-5;
  bool zero_centred = false;
};

// y again from saved statistics, bit for bit.
struct RmsNormApply {
  Tensor y;
  Tensor x;
  Tensor rstd;
  Tensor weight;
  bool zero_centred = false;
};

struct RmsNormBackward {
  Tensor dx;       // [rows, h]
  Tensor dweight;  // [h], f32: overwritten with this microbatch's sums over rows
  Tensor dy;
  Tensor x;
  Tensor rstd;
  Tensor weight;
  bool zero_centred = false;
  Tensor residual = {};  // [rows, h], optional: dx = round(gradient) + residual, rounded again; may
                         // be dx itself
};

OpCost cost(const RmsNormForward& op);
OpCost cost(const RmsNormApply& op);
OpCost cost(const RmsNormBackward& op);

void rms_norm_forward(Context& context, const RmsNormForward& op);
void rms_norm_apply(Context& context, const RmsNormApply& op);
void rms_norm_backward(Context& context, const RmsNormBackward& op);

}  // namespace phalanx::ops
