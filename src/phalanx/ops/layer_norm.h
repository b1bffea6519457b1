#pragma once
// Layer normalisation over the last dimension with fp32 statistics: y = (x - mean) rstd weight +
// bias, rstd = 1 / sqrt(variance + epsilon) with the biased variance (Ba et al., 2016). The stream
// that is normalised (x, and in backward dx and residual) has the storage type of y and dy, or is
// f32. A zero-centred weight is stored less 1: rows are multiplied by 1 + weight.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct LayerNormForward {
  Tensor y;             // [rows, h]
  Tensor mean;          // [rows], f32
  Tensor rstd;          // [rows], f32
  Tensor x;             // [rows, h]
  Tensor weight, bias;  // [h]
  double epsilon = 1e-5;
  bool zero_centred = false;
};

// Computes y again from saved statistics, bit for bit: the weight gradient of the next linear needs
// it, and it is not saved.
struct LayerNormApply {
  Tensor y;
  Tensor x;
  Tensor mean, rstd;
  Tensor weight, bias;
  bool zero_centred = false;
};

struct LayerNormBackward {
  Tensor dx;              // [rows, h]
  Tensor dweight, dbias;  // [h], f32: overwritten with this microbatch's sums over rows
  Tensor dy;
  Tensor x;
  Tensor mean, rstd;
  Tensor weight;
  bool zero_centred = false;
  Tensor residual = {};  // [rows, h], optional: dx = round(gradient) + residual, rounded again; may
                         // be dx itself
};

OpCost cost(const LayerNormForward& op);
OpCost cost(const LayerNormApply& op);
OpCost cost(const LayerNormBackward& op);

void layer_norm_forward(Context& context, const LayerNormForward& op);
void layer_norm_apply(Context& context, const LayerNormApply& op);
void layer_norm_backward(Context& context, const LayerNormBackward& op);

}  // namespace phalanx::ops
