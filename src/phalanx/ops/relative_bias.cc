#include "phalanx/ops/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// The logarithm of a float, rounded to float: through double, so that no machine's library shows.
float log_of(double x) { return static_cast<float>(std::log(x)); }

template <typename Op>
void expect_operands(std::string_view name, const Op& op, const Tensor& table, const Tensor& bias) {
  PHALANX_CHECK(op.buckets.are_valid(), "{}: {} buckets up to distance {}", name, op.buckets.count,
                op.buckets.max_distance);
  PHALANX_CHECK(bias.shape.rank() == 3 && table.shape.rank() == 2, "{}: bias {}, table {}", name,
                bias.shape.to_string(), table.shape.to_string());
  PHALANX_CHECK(op.first_head >= 0 && op.first_head + bias.shape[0] <= table.shape[1],
                "{}: heads {} + {} of {}", name, op.first_head, bias.shape[0], table.shape[1]);
  PHALANX_CHECK(op.first_query >= 0, "{}: queries from {} on", name, op.first_query);
  expect_shape(name, "table", table, {op.buckets.count, table.shape[1]});
  expect_contiguous(name, table, bias);
  expect_full_precision(name, "bias", bias);
}

}  // namespace

// Megatron works in fp32: which distances are where the scale is about to step depends on that.
std::int64_t relative_bucket(const RelativeBuckets& buckets, std::int64_t difference) {
  const std::int64_t side = buckets.of_side();
  const std::int64_t exact = buckets.exact();
  const std::int64_t base = buckets.bidirectional && difference > 0 ? side : 0;
  const std::int64_t distance =
      buckets.bidirectional ? std::abs(difference) : std::max<std::int64_t>(-difference, 0);
  if (distance < exact) return base + distance;
  const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const float whole =
      log_of(static_cast<double>(buckets.max_distance) / static_cast<double>(exact));
  const float place = log_of(ratio) / whole * static_cast<float>(side - exact);
  // Far away it may be more than an integer holds.
  const float last = static_cast<float>(side - exact - 1);
  return base + exact + static_cast<std::int64_t>(std::min(place, last));
}

OpCost cost(const RelativeBiasForward& op) {
  return memory_cost("relative_bias_forward", moved(op.table), moved(op.bias));
}
OpCost cost(const RelativeBiasBackward& op) {
  return memory_cost("relative_bias_backward", moved(op.dbias, op.dtable), moved(op.dtable));
}

void relative_bias_forward(Context& context, const RelativeBiasForward& op) {
  expect_operands("relative_bias_forward", op, op.table, op.bias);
  expect_floating("relative_bias_forward", "table", op.table);
  enqueue(context, op);
}

void relative_bias_backward(Context& context, const RelativeBiasBackward& op) {
  expect_operands("relative_bias_backward", op, op.dtable, op.dbias);
  expect_full_precision("relative_bias_backward", "dtable", op.dtable);
  enqueue(context, op);
}

}  // namespace phalanx::ops
