#include "phalanx/ops/random.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

template <typename Op>
void expect_box(const char* name, const Op& op) {
  PHALANX_CHECK(op.x.shape.rank() == 2 && op.x.strides[1] == 1, "{}: x is {}", name,
                op.x.shape.to_string());
  expect_floating(name, "x", op.x);
  PHALANX_CHECK(op.first_column + op.x.shape[1] <= op.global_columns, "{}: columns {} + {} of {}",
                name, op.first_column, op.x.shape[1], op.global_columns);
}

}  // namespace

OpCost cost(const Normal& op) { return memory_cost("normal", 0, moved(op.x)); }
OpCost cost(const Uniform& op) { return memory_cost("uniform", 0, moved(op.x)); }

void normal(Context& context, const Normal& op) {
  expect_box("normal", op);
  enqueue(context, op);
}

void uniform(Context& context, const Uniform& op) {
  expect_box("uniform", op);
  enqueue(context, op);
}

}  // namespace phalanx::ops
