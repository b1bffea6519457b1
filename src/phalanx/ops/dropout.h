#pragma once
// Random factors by coordinates. The end of a sub-layer: out = residual + dropout(x + bias), and
// the gradient through dropout. Kept elements are multiplied by float(1 / (1 - p)); the mask is a
// function of (sample, site, position, feature) (base/philox.h), so it is computed again and never
// stored. The fused op rounds like its parts: x + bias is rounded to the storage type, so is its
// dropout, then the sum. With probability 0 no random number is drawn.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct BiasDropoutResidual {
  Tensor out;       // [s, b, h]; may be residual
  Tensor x;         // [s, b, h], storage type
  Tensor bias;      // [h], optional, as x
  Tensor residual;  // [s, b, h], as out: the storage type, or f32 (an fp32 residual stream)
  Dropout dropout;
  RowCoordinates rows;
};

// dx = mask * dout / (1 - p). With probability 0 a copy.
struct DropoutBackward {
  Tensor dx;    // [s, b, h], storage type; may be dout
  Tensor dout;  // [s, b, h], storage type or f32
  Dropout dropout;
  RowCoordinates rows;
};

// y = x * factor, with factors uniform in [1 - epsilon, 1 + epsilon) by the coordinates of dropout
// at this site (jitter_factor()). Its gradient is the same op on dy.
struct Jitter {
  Tensor y;  // [s, b, h], full precision; may be x
  Tensor x;  // [s, b, h]
  double epsilon = 0.0;
  PhiloxKey key;
  std::uint32_t site = 0;
  RowCoordinates rows;
};

OpCost cost(const BiasDropoutResidual& op);
OpCost cost(const DropoutBackward& op);
OpCost cost(const Jitter& op);

void bias_dropout_residual(Context& context, const BiasDropoutResidual& op);
void dropout_backward(Context& context, const DropoutBackward& op);
void jitter(Context& context, const Jitter& op);

}  // namespace phalanx::ops
