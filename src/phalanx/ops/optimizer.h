#pragma once
// The updates of optimizers: of all segments of flat buffers in one call. Operands are elements
// [first, first + n) of buffers; the segments that the table names are updated. If skip is not 0,
// nothing changes.
//
// Numbers that change from step to step are operands, so that a recorded launch can be replayed.
// They are f64 and are rounded where they are used.
//
// Adam with decoupled weight decay (Loshchilov and Hutter, 2019):
// g = gradient * factor; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
// w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w).
//
// Stochastic gradient descent as torch.optim.SGD, without dampening and without Nesterov's form
// (Sutskever et al., 2013): g = gradient * factor + decay w; b = momentum b + g, where b begins
// with zeros; w -= lr b, or lr g without momentum.

#include <array>

#include "phalanx/ops/segments.h"

namespace phalanx::ops {

struct AdamSegments {
  Tensor weight;    // [n], f32: the main parameters
  Tensor storage;   // [n], optional: the 16-bit parameters, rounded from weight
  Tensor gradient;  // [n], f32
  Tensor exp_avg;   // [n], f32
  Tensor exp_avg_sq;
  SegmentTable table;
  std::int64_t first = 0;
  Tensor settings;     // [groups, 2], f64: lr, decay
  Tensor corrections;  // [2], f64: adam_corrections()
  Tensor factor;       // [1], f32
  Tensor skip;         // [1], f32
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t); t is counted from 1.
std::array<double, 2> adam_corrections(double beta1, double beta2, std::int64_t step);

struct SgdSegments {
  Tensor weight;           // [n], f32: the main parameters
  Tensor storage;          // [n], optional: the 16-bit parameters, rounded from weight
  Tensor gradient;         // [n], f32
  Tensor momentum_buffer;  // [n], f32; absent without momentum
  SegmentTable table;
  std::int64_t first = 0;
  Tensor settings;  // [groups, 2], f64: lr, decay
  Tensor factor;    // [1], f32
  Tensor skip;      // [1], f32
  double momentum = 0.0;
};

OpCost cost(const AdamSegments& op);
OpCost cost(const SgdSegments& op);
void adam_segments(Context& context, const AdamSegments& op);
void sgd_segments(Context& context, const SgdSegments& op);

}  // namespace phalanx::ops
