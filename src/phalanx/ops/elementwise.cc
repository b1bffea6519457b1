#include "phalanx/ops/elementwise.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

void expect_convertible(std::string_view op, const Tensor& from, const Tensor& to) {
  PHALANX_CHECK(to.dtype == from.dtype || (is_floating(to.dtype) && is_floating(from.dtype)),
                "{}: {} to {}", op, name_of(from.dtype), name_of(to.dtype));
}

}  // namespace

OpCost cost(const Fill& op) { return memory_cost("fill", 0, moved(op.x)); }
OpCost cost(const Copy& op) { return memory_cost("copy", moved(op.source), moved(op.destination)); }
OpCost cost(const Accumulate& op) {
  return memory_cost("accumulate", moved(op.destination, op.source), moved(op.destination));
}
OpCost cost(const Scale& op) { return memory_cost("scale", moved(op.x), moved(op.y)); }

void fill(Context& context, const Fill& op) {
  expect_contiguous("fill", op.x);
  enqueue(context, op);
}

void copy(Context& context, const Copy& op) {
  expect_shape("copy", "destination", op.destination, op.source.shape);
  expect_convertible("copy", op.source, op.destination);
  enqueue(context, op);
}

void accumulate(Context& context, const Accumulate& op) {
  expect_shape("accumulate", "destination", op.destination, op.source.shape);
  expect_contiguous("accumulate", op.destination, op.source);
  expect_convertible("accumulate", op.source, op.destination);
  enqueue(context, op);
}

void scale(Context& context, const Scale& op) {
  expect_shape("scale", "y", op.y, op.x.shape);
  expect_contiguous("scale", op.y, op.x);
  PHALANX_CHECK(op.x.dtype == op.y.dtype && is_floating(op.x.dtype), "scale: {} to {}",
                name_of(op.x.dtype), name_of(op.y.dtype));
  enqueue(context, op);
}

}  // namespace phalanx::ops
