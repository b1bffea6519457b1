#include "phalanx/ops/elementwise.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const Fill& op) { return {"fill", 0, 0, bytes_of(op.x)}; }
OpCost cost(const Copy& op) { return {"copy", 0, bytes_of(op.source), bytes_of(op.destination)}; }
OpCost cost(const Accumulate& op) {
  return {"accumulate", 0, bytes_of(op.destination, op.source), bytes_of(op.destination)};
}

void fill(Context& context, const Fill& op) {
  expect_contiguous("fill", "x", op.x);
  enqueue(context, op);
}

void copy(Context& context, const Copy& op) {
  expect_shape("copy", "destination", op.destination, op.source.shape);
  PHALANX_CHECK(op.destination.dtype == op.source.dtype ||
                    (is_floating(op.destination.dtype) && is_floating(op.source.dtype)),
                "copy: {} to {}", name_of(op.source.dtype), name_of(op.destination.dtype));
  enqueue(context, op);
}

void accumulate(Context& context, const Accumulate& op) {
  expect_shape("accumulate", "destination", op.destination, op.source.shape);
  expect_contiguous("accumulate", "destination", op.destination);
  expect_contiguous("accumulate", "source", op.source);
  enqueue(context, op);
}

}  // namespace phalanx::ops
