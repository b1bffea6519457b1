#include "phalanx/ops/random.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const Normal& op) { return {"normal", 0, 0, bytes_of(op.x)}; }

void normal(Context& context, const Normal& op) {
  PHALANX_CHECK(op.x.shape.rank() == 2 && op.x.strides[1] == 1, "normal: x is {}",
                op.x.shape.to_string());
  expect_floating("normal", "x", op.x);
  PHALANX_CHECK(op.first_column + op.x.shape[1] <= op.global_columns,
                "normal: columns {} + {} of {}", op.first_column, op.x.shape[1], op.global_columns);
  enqueue(context, op);
}

}  // namespace phalanx::ops
