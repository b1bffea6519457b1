#pragma once
// The updates of optimizers, of a dense fp32 range of weights. If skip is not 0, nothing changes.
//
// Adam with decoupled weight decay (Loshchilov and Hutter, 2019) on dense fp32 ranges:
// g = gradient * factor; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
// w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w).
//
// Stochastic gradient descent as torch.optim.SGD, without dampening and without Nesterov's form
// (Sutskever et al., 2013): g = gradient * factor + decay w; b = momentum b + g, where b begins
// with zeros; w -= lr b, or lr g without momentum.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct Adam {
  Tensor weight;    // [n], f32: the main parameter
  Tensor storage;   // [n], optional: the 16-bit parameter, rounded from weight
  Tensor gradient;  // [n], f32
  Tensor exp_avg;   // [n], f32
  Tensor exp_avg_sq;
  Tensor factor;  // [1], f32
  Tensor skip;    // [1], f32
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  std::int64_t step = 1;  // t, from 1
};

struct Sgd {
  Tensor weight;           // [n], f32: the main parameter
  Tensor storage;          // [n], optional: the 16-bit parameter, rounded from weight
  Tensor gradient;         // [n], f32
  Tensor momentum_buffer;  // [n], f32; absent without momentum
  Tensor factor;           // [1], f32
  Tensor skip;             // [1], f32
  double lr = 0.0;
  double momentum = 0.0;
  double weight_decay = 0.0;
};

OpCost cost(const Adam& op);
OpCost cost(const Sgd& op);
void adam(Context& context, const Adam& op);
void sgd(Context& context, const Sgd& op);

}  // namespace phalanx::ops
