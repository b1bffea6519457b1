#pragma once
// Norms over the last dimension with fp32 statistics. The stream that is normalised (x, and in
// backward dx and residual) has the storage type of y and dy, or is f32.
//
//   layer norm  y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(variance + epsilon) with the
//               biased variance (Ba et al., 2016)
//   RMS norm    y = x rstd weight, rstd = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich, 2019):
//               an op whose mean is absent, and with it the bias
//
// Rows may have several places with one weight for all, as the heads of a row: operands are then
// [rows, places, h], evenly apart, and statistics [places, rows]. Sums over rows are taken place by
// place and added in the order of places.
//
// There is one rounding, to y. A zero-centred weight is stored less 1: rows are multiplied by
// 1 + weight.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct NormForward {
  Tensor y;          // [rows, h] or [rows, places, h]
  Tensor mean = {};  // [rows] or [places, rows], f32
  Tensor rstd;       // as mean
  Tensor x;          // as y
  Tensor weight;     // [h]
  Tensor bias = {};  // [h]
  double epsilon = 1e-5;
  bool zero_centred = false;
};

// Computes y again from saved statistics, bit for bit: the weight gradient of the next linear needs
// it, and it is not saved.
struct NormApply {
  Tensor y;
  Tensor x;
  Tensor mean = {};
  Tensor rstd;
  Tensor weight;
  Tensor bias = {};
  bool zero_centred = false;
};

struct NormBackward {
  Tensor dx;          // [rows, h] or [rows, places, h]
  Tensor dweight;     // [h], f32: overwritten with this microbatch's sums over rows
  Tensor dbias = {};  // as dweight
  Tensor dy;
  Tensor x;
  Tensor mean = {};
  Tensor rstd;
  Tensor weight;
  bool zero_centred = false;
  Tensor residual = {};  // as dx, optional: dx = round(gradient) + residual, rounded again; may
                         // be dx itself
};

// The operands of one place, as those of an op without places; absent ones stay absent.
NormForward at_place(const NormForward& op, std::int64_t place);
NormApply at_place(const NormApply& op, std::int64_t place);
NormBackward at_place(const NormBackward& op, std::int64_t place);
// 1 if operands have no places.
template <typename Op>
std::int64_t places_of(const Op& op) {
  return op.x.shape.rank() == 3 ? op.x.shape[1] : 1;
}

OpCost cost(const NormForward& op);
OpCost cost(const NormApply& op);
OpCost cost(const NormBackward& op);

void norm_forward(Context& context, const NormForward& op);
void norm_apply(Context& context, const NormApply& op);
void norm_backward(Context& context, const NormBackward& op);

}  // namespace phalanx::ops
