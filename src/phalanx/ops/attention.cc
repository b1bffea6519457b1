#include "phalanx/ops/attention.h"

#include <algorithm>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

struct Extents {
  std::int64_t sq, sk, b, heads, groups, d;
};

Extents expect_inputs(std::string_view op, const AttentionInputs& in) {
  const Shape& query = in.query.shape;
  const bool grouped = query.rank() == 5;
  const Extents e{.sq = query[0],
                  .sk = in.key.shape[0],
                  .b = query[1],
                  .heads = grouped ? query[2] * query[3] : query[2],
                  .groups = in.key.shape[2],
                  .d = query.back()};
  PHALANX_CHECK(e.groups > 0 && e.heads % e.groups == 0 && (!grouped || query[2] == e.groups),
                "{}: queries {} in {} groups", op, query.to_string(), e.groups);
  PHALANX_CHECK(in.mask.window == 0 || (in.mask.window > 0 && in.mask.causal),
                "{}: a window of {} keys{}", op, in.mask.window,
                in.mask.causal ? "" : " without a causal mask");
  expect_shape(op, "key", in.key, {e.sk, e.b, e.groups, e.d}, in.query.dtype);
  expect_shape(op, "value", in.value, {e.sk, e.b, e.groups, e.d}, in.query.dtype);
  expect_floating(op, "query", in.query);
  if (in.bias) {
    expect_full_precision(op, "bias", in.bias, {e.heads, e.sq, e.sk});
  }
  expect_dense_last(op, in.query, in.key, in.value, in.bias);
  expect_rows(op, in.query_rows, e.sq, e.b);
  if (in.key_rows.sample) {
    expect_rows(op, in.key_rows, e.sk, e.b);
  } else {
    expect_places(op, in.key_rows, e.sk, e.b);
  }
  return e;
}

// Results of fused attention may be in full precision beside operands of 16 bits.
void expect_result(std::string_view op, std::string_view operand, const Tensor& tensor,
                   const Shape& shape, DType storage) {
  expect_shape(op, operand, tensor, shape);
  expect_stream(op, operand, tensor, storage);
}

void expect_gradients(std::string_view op, const AttentionInputs& in, const Tensor& dquery,
                      const Tensor& dkey, const Tensor& dvalue, const Tensor& dbias) {
  expect_result(op, "dquery", dquery, in.query.shape, in.query.dtype);
  expect_result(op, "dkey", dkey, in.key.shape, in.query.dtype);
  expect_result(op, "dvalue", dvalue, in.value.shape, in.query.dtype);
  expect_dense_last(op, dquery, dkey, dvalue, dbias);
  if (!dbias) return;
  expect_full_precision(op, "dbias", dbias, in.bias.shape);
}

// Twice the number of pairs of a query and a key that the mask leaves. A causal mask over equal
// lengths leaves about half; of a window the pairs that are seen count, the queries being the last
// of the keys.
std::int64_t twice_seen_pairs(const AttentionInputs& in) {
  const std::int64_t queries = in.query.shape[0];
  const std::int64_t keys = in.key.shape[0];
  const std::int64_t all = 2 * queries * keys;
  if (!in.mask.causal || keys < queries) return all;
  if (in.mask.window == 0 || in.mask.window >= keys) return keys == queries ? all / 2 : all;
  std::int64_t seen = 0;
  for (std::int64_t i = keys - queries; i < keys; ++i) seen += std::min(i + 1, in.mask.window);
  return 2 * seen;
}

std::int64_t input_bytes(const AttentionInputs& in) {
  return bytes_of(in.query, in.key, in.value, in.bias);
}

// Of so many products of [sq, d] with [d, sk], or of their like, for every head and sample.
OpCost attention_cost(std::string_view name, const AttentionInputs& in, int products,
                      std::int64_t bytes_read, std::int64_t bytes_written) {
  const Shape& query = in.query.shape;
  const std::int64_t twice_seen = twice_seen_pairs(in);
  AttentionShape shape{.batch = query[1],
                       .heads = query.rank() == 5 ? query[2] * query[3] : query[2],
                       .queries = query[0],
                       .keys = in.key.shape[0],
                       .head_size = query.back()};
  const std::int64_t pairs = shape.queries * shape.keys;
  if (pairs > 0) shape.seen = static_cast<double>(twice_seen) / static_cast<double>(2 * pairs);
  return {.name = name,
          .flops = products * twice_seen * shape.batch * shape.heads * shape.head_size,
          .bytes_read = bytes_read,
          .bytes_written = bytes_written,
          .dtype = in.query.dtype,
          .attention = shape};
}

}  // namespace

OpCost cost(const AttentionForward& op) {
  return attention_cost("attention_forward", op.in, 2, input_bytes(op.in),
                        bytes_of(op.out, op.lse));
}
OpCost cost(const AttentionDelta& op) {
  return memory_cost("attention_delta", moved(op.out, op.dout), moved(op.delta));
}
OpCost cost(const AttentionBackward& op) {
  return attention_cost("attention_backward", op.in, 5,
                        input_bytes(op.in) + bytes_of(op.dout, op.lse, op.delta, op.dbias) +
                            (op.adds_to_dquery ? op.dquery.bytes() : 0),
                        bytes_of(op.dquery, op.dkey, op.dvalue, op.dbias));
}
OpCost cost(const AttentionMerge& op) {
  return memory_cost("attention_merge", moved(op.out, op.lse, op.part_out, op.part_lse),
                     moved(op.out, op.lse));
}
OpCost cost(const UnfusedAttentionForward& op) {
  return attention_cost("unfused_attention_forward", op.in, 2, input_bytes(op.in),
                        bytes_of(op.out, op.probabilities));
}
OpCost cost(const UnfusedAttentionBackward& op) {
  return attention_cost("unfused_attention_backward", op.in, 4,
                        input_bytes(op.in) + bytes_of(op.dout, op.probabilities, op.dbias),
                        bytes_of(op.dquery, op.dkey, op.dvalue, op.dbias));
}

void attention_forward(Context& context, const AttentionForward& op) {
  const Extents e = expect_inputs("attention_forward", op.in);
  expect_result("attention_forward", "out", op.out, {e.sq, e.b, e.heads, e.d}, op.in.query.dtype);
  expect_full_precision("attention_forward", "lse", op.lse, {e.b, e.heads, e.sq});
  expect_dense_last("attention_forward", op.out);
  enqueue(context, op);
}

void attention_delta(Context& context, const AttentionDelta& op) {
  expect_shape("attention_delta", "dout", op.dout, op.out.shape, op.out.dtype);
  expect_full_precision("attention_delta", "delta", op.delta,
                        {op.out.shape[1], op.out.shape[2], op.out.shape[0]});
  expect_floating("attention_delta", "out", op.out);
  expect_dense_last("attention_delta", op.out, op.dout);
  enqueue(context, op);
}

void attention_backward(Context& context, const AttentionBackward& op) {
  const Extents e = expect_inputs("attention_backward", op.in);
  expect_gradients("attention_backward", op.in, op.dquery, op.dkey, op.dvalue, op.dbias);
  expect_shape("attention_backward", "dout", op.dout, {e.sq, e.b, e.heads, e.d}, op.in.query.dtype);
  if (op.adds_to_dquery) expect_full_precision("attention_backward", "dquery", op.dquery);
  expect_full_precision("attention_backward", "lse", op.lse, {e.b, e.heads, e.sq});
  expect_full_precision("attention_backward", "delta", op.delta, {e.b, e.heads, e.sq});
  expect_dense_last("attention_backward", op.dout);
  enqueue(context, op);
}

void attention_merge(Context& context, const AttentionMerge& op) {
  const Shape& heads = op.out.shape;
  const Shape statistics{heads[1], heads[2], heads[0]};
  expect_full_precision("attention_merge", "out", op.out);
  expect_full_precision("attention_merge", "lse", op.lse, statistics);
  expect_shape("attention_merge", "part_out", op.part_out, heads, op.out.dtype);
  expect_full_precision("attention_merge", "part_lse", op.part_lse, statistics);
  expect_dense_last("attention_merge", op.out, op.part_out);
  enqueue(context, op);
}

void unfused_attention_forward(Context& context, const UnfusedAttentionForward& op) {
  const Extents e = expect_inputs("unfused_attention_forward", op.in);
  expect_shape("unfused_attention_forward", "out", op.out, {e.sq, e.b, e.heads, e.d},
               op.in.query.dtype);
  expect_shape("unfused_attention_forward", "probabilities", op.probabilities,
               {e.b, e.heads, e.sq, e.sk}, op.in.query.dtype);
  expect_dense_last("unfused_attention_forward", op.out, op.probabilities);
  enqueue(context, op);
}

void unfused_attention_backward(Context& context, const UnfusedAttentionBackward& op) {
  const Extents e = expect_inputs("unfused_attention_backward", op.in);
  expect_gradients("unfused_attention_backward", op.in, op.dquery, op.dkey, op.dvalue, op.dbias);
  for (const Tensor* gradient : {&op.dquery, &op.dkey, &op.dvalue}) {
    expect_dtype("unfused_attention_backward", "a gradient", *gradient, op.in.query.dtype);
  }
  expect_shape("unfused_attention_backward", "dout", op.dout, {e.sq, e.b, e.heads, e.d},
               op.in.query.dtype);
  expect_shape("unfused_attention_backward", "probabilities", op.probabilities,
               {e.b, e.heads, e.sq, e.sk}, op.in.query.dtype);
  expect_dense_last("unfused_attention_backward", op.dout, op.probabilities);
  enqueue(context, op);
}

}  // namespace phalanx::ops
