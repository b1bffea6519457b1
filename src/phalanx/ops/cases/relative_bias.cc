#include "phalanx/ops/relative_bias.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct RelativeSize {
  std::int64_t heads, sq, sk;
  RelativeBuckets buckets = {};
  std::int64_t all_heads = 0;  // of the table; 0: these
  std::int64_t first_head = 0;
  std::int64_t first_query = 0;

  std::int64_t table_heads() const { return all_heads > 0 ? all_heads : heads; }
};

std::string relative_name(const RelativeSize& size) {
  return fmt::format("{}x{}x{} from query {}, heads from {} of {}, {} buckets to {}{}", size.heads,
                     size.sq, size.sk, size.first_query, size.first_head, size.table_heads(),
                     size.buckets.count, size.buckets.max_distance,
                     size.buckets.bidirectional ? ", bidirectional" : "");
}

RelativeBiasForward relative_forward_op(Operands& operands, const RelativeSize& size) {
  return {.bias = operands.output(operands.full(), {size.heads, size.sq, size.sk}),
          .table = operands.uniform({size.buckets.count, size.table_heads()}),
          .buckets = size.buckets,
          .first_head = size.first_head,
          .first_query = size.first_query};
}

RelativeBiasBackward relative_backward_op(Operands& operands, const RelativeSize& size) {
  return {.dtable = operands.uniform(operands.full(), {size.buckets.count, size.table_heads()}),
          .dbias = operands.uniform(operands.full(), {size.heads, size.sq, size.sk}),
          .buckets = size.buckets,
          .first_head = size.first_head,
          .first_query = size.first_query};
}

Job relative_forward(Operands& operands, const RelativeSize& size) {
  const RelativeBiasForward op = relative_forward_op(operands, size);
  return make_job(op, relative_bias_forward, {{op.bias, 0.0}});
}

Job relative_backward(Operands& operands, const RelativeSize& size) {
  const RelativeBiasBackward op = relative_backward_op(operands, size);
  return make_job(op, relative_bias_backward,
                  {near(op.dtable.slice(1, size.first_head, size.heads), 4)});
}

GradientJob relative_gradients(Operands& operands, const RelativeSize& size) {
  const RelativeBiasForward op = relative_forward_op(operands, size);
  const RelativeBiasBackward back{
      .dtable = operands.filled(DType::kF64, {size.buckets.count, size.table_heads()}, 0.0),
      .dbias = operands.uniform({size.heads, size.sq, size.sk}),
      .buckets = size.buckets,
      .first_head = size.first_head,
      .first_query = size.first_query};
  return {call_of(relative_bias_forward, op),
          call_of(relative_bias_backward, back),
          {{op.bias, back.dbias}},
          {{op.table, back.dtable}}};
}

constexpr RelativeBuckets kCausalBuckets{.bidirectional = false};
constexpr RelativeBuckets kFewBuckets{.count = 6, .max_distance = 5};

}  // namespace

void add_relative_bias_cases(CaseTable& table) {
  const RelativeSize sizes[] = {{1, 1, 1},
                                {3, 17, 33},
                                {2, 40, 9, kCausalBuckets},
                                {4, 1, 65, kCausalBuckets, 9, 3, 64},
                                {2, 150, 150, {}, 4, 2},
                                {5, 31, 19, kFewBuckets}};
  for (const RelativeSize& size : sizes) {
    table.test("relative_bias_forward", relative_name(size), kStorageTypes, relative_forward, size);
    table.test("relative_bias_backward", relative_name(size), kFullPrecision, relative_backward,
               size);
  }
  for (const RelativeSize& size :
       {RelativeSize{2, 9, 7, kFewBuckets, 4, 1},
        RelativeSize{2, 3, 12, {.count = 5, .max_distance = 6, .bidirectional = false}, 2, 0, 8}}) {
    table.differentiate("relative_bias", relative_name(size), relative_gradients, size);
  }
  const RelativeSize large{12, 512, 512};
  table.time("relative_bias_forward", relative_name(large), kTimedTypes, relative_forward, large);
  table.time("relative_bias_backward", relative_name(large), kFullPrecision, relative_backward,
             large);
}

}  // namespace phalanx::ops
