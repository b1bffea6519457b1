#include "phalanx/ops/optimizer.h"

#include <cmath>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// What all updates have.
template <typename Op>
void expect_update(const char* name, const Op& op) {
  expect_full_precision(name, "gradient", op.gradient, op.weight.shape);
  expect_full_precision(name, "weight", op.weight);
  PHALANX_CHECK(op.weight.shape.rank() == 1, "{}: weight is {}, expected one dimension", name,
                op.weight.shape.to_string());
  if (op.storage) {
    expect_shape(name, "storage", op.storage, op.weight.shape);
    expect_floating(name, "storage", op.storage);
  }
  for (const Tensor* one : {&op.factor, &op.skip}) {
    expect_full_precision(name, "a scalar", *one, {1});
  }
  PHALANX_CHECK(op.settings.shape.rank() == 2, "{}: settings are {}, expected rows of 2", name,
                op.settings.shape.to_string());
  const std::int64_t groups = op.settings.shape[0];
  expect_shape(name, "settings", op.settings, {groups, 2}, DType::kF64);
  expect_contiguous(name, op.weight, op.storage, op.gradient, op.settings);
  expect_segments(name, op.table, op.first, op.weight.count(), groups);
}

void expect_state(const char* name, const Tensor& state, const Tensor& weight) {
  expect_full_precision(name, "a state", state, weight.shape);
  expect_contiguous(name, state);
}

// Of one element of each tensor that is there.
template <typename... Operands>
std::int64_t element_bytes(const Operands&... tensors) {
  return ((tensors ? size_of(tensors.dtype) : 0) + ...);
}

}  // namespace

std::array<double, 2> adam_corrections(double beta1, double beta2, std::int64_t step) {
  PHALANX_CHECK(step >= 1, "adam: step {}", step);
  const auto t = static_cast<double>(step);
  return {1.0 / (1.0 - std::pow(beta1, t)), 1.0 / std::sqrt(1.0 - std::pow(beta2, t))};
}

OpCost cost(const AdamSegments& op) {
  const std::int64_t elements = op.table.elements();
  return memory_cost("adam",
                     elements * element_bytes(op.weight, op.gradient, op.exp_avg, op.exp_avg_sq),
                     elements * element_bytes(op.weight, op.storage, op.exp_avg, op.exp_avg_sq));
}
OpCost cost(const SgdSegments& op) {
  const std::int64_t elements = op.table.elements();
  return memory_cost("sgd", elements * element_bytes(op.weight, op.gradient, op.momentum_buffer),
                     elements * element_bytes(op.weight, op.storage, op.momentum_buffer));
}

void adam_segments(Context& context, const AdamSegments& op) {
  expect_update("adam", op);
  expect_state("adam", op.exp_avg, op.weight);
  expect_state("adam", op.exp_avg_sq, op.weight);
  expect_shape("adam", "corrections", op.corrections, {2}, DType::kF64);
  expect_contiguous("adam", op.corrections);
  if (!op.table.host.empty()) enqueue(context, op);
}

void sgd_segments(Context& context, const SgdSegments& op) {
  expect_update("sgd", op);
  if (op.momentum_buffer) expect_state("sgd", op.momentum_buffer, op.weight);
  PHALANX_CHECK(op.momentum_buffer || op.momentum == 0.0, "sgd: momentum {} without a buffer",
                op.momentum);
  if (!op.table.host.empty()) enqueue(context, op);
}

}  // namespace phalanx::ops
