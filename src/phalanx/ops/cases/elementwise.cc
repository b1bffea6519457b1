#include "phalanx/ops/elementwise.h"

#include <limits>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

constexpr std::array kEveryType = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                   DType::kI64, DType::kI32, DType::kU8};

// A case's storage type is that of the destination.
Job filled(Operands& operands, const Shape& shape) {
  const Fill op{.x = operands.output(shape), .value = is_floating(operands.storage()) ? 0.1 : 7.0};
  return make_job(op, fill, {{op.x, 0.0}});
}

Tensor contents(Operands& operands, DType dtype, const Shape& shape) {
  return is_floating(dtype) ? operands.uniform(dtype, shape)
                            : operands.uniform(dtype, shape, 0.0, 200.0);
}

Job copied(Operands& operands, DType source, const Shape& shape) {
  const Copy op{.destination = operands.output(shape), .source = contents(operands, source, shape)};
  return make_job(op, copy, {{op.destination, 0.0}});
}

// Ties, the ends of the ranges of the 16-bit types, subnormals, infinities and NaN.
Job special_values(Operands& operands) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0 + 0x1p-8,
                                      1.0 + 0x1p-8 + 0x1p-20,
                                      1.0 + 3 * 0x1p-8,
                                      1.0 + 0x1p-11,
                                      1.0 + 3 * 0x1p-11,
                                      65504.0,
                                      65519.0,
                                      65520.0,
                                      -65536.0,
                                      0x1p-14,
                                      0x1p-15,
                                      1.5 * 0x1p-24,
                                      0x1p-25,
                                      0x1p-26,
                                      0x1p-133,
                                      3.0e38,
                                      3.4e38,
                                      infinity,
                                      -infinity,
                                      -std::numeric_limits<double>::quiet_NaN()};
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const Copy op{.destination = operands.output(shape),
                .source = operands.values(DType::kF32, shape, values)};
  return make_job(op, copy, {{op.destination, 0.0}});
}

Tensor transposed(Tensor tensor, int a, int b) {
  std::swap(tensor.shape[a], tensor.shape[b]);
  std::swap(tensor.strides[a], tensor.strides[b]);
  return tensor;
}

Job copied_columns(Operands& operands) {
  const Copy op{.destination = operands.output({9, 65}).slice(1, 7, 33),
                .source = operands.uniform(DType::kF32, {9, 40}).slice(1, 3, 33)};
  return make_job(op, copy, {{op.destination, 0.0}});
}

// [s, b, heads, d] -> [b, heads, s, d], and a plain transposition.
Job copied_transposed(Operands& operands, bool plain) {
  Copy op;
  if (plain) {
    op.source = transposed(operands.uniform({65, 17}), 0, 1);
    op.destination = operands.output({17, 65});
  } else {
    op.source = transposed(transposed(operands.uniform({5, 3, 2, 17}), 0, 1), 1, 2);
    op.destination = operands.output({3, 2, 5, 17});
  }
  return make_job(op, copy, {{op.destination, 0.0}});
}

// The keys of a tensor of queries, keys and values, [s, b, groups, queries + 2, d], into a tensor
// of their own, or sums in f32 back to their place.
Job copied_keys(Operands& operands, bool back) {
  const auto keys = [](const Tensor& fused) { return fused.select(3, 3); };
  const Shape fused{11, 3, 2, 5, 17};
  const Shape dense{11, 3, 2, 17};
  Copy op;
  if (back) {
    op.source = operands.uniform(DType::kF32, dense);
    op.destination = keys(operands.output(fused));
  } else {
    op.source = keys(operands.uniform(fused));
    op.destination = operands.output(dense);
  }
  return make_job(op, copy, {{op.destination, 0.0}});
}

Job accumulated(Operands& operands, std::int64_t n, bool into_f32) {
  const DType destination = into_f32 ? DType::kF32 : operands.storage();
  const Accumulate op{.destination = contents(operands, destination, {n}),
                      .source = contents(operands, operands.storage(), {n})};
  return make_job(op, accumulate, {{op.destination, 0.0}});
}

Job scaled(Operands& operands, std::int64_t n) {
  const Scale op{.y = operands.output({n}), .x = operands.uniform({n}), .factor = -0.375};
  return make_job(op, scale, {{op.y, 0.0}});
}

void add_copies(CaseTable& table) {
  for (const std::int64_t n : {1, 3, 17, 257, 70001}) {
    for (const DType source : kStorageTypes) {
      table.test("copy", fmt::format("{} from {}", n, name_of(source)), kStorageTypes, copied,
                 source, Shape{n});
    }
    table.test("copy", fmt::format("{} of the same type", n), kEveryType,
               [n](Operands& operands) { return copied(operands, operands.storage(), {n}); });
  }
  table.test("copy", "special values", kStorageTypes, special_values);
  table.test("copy", "columns", kStorageTypes, copied_columns);
  table.test("copy", "transposed", kStorageTypes, copied_transposed, true);
  table.test("copy", "heads first", kStorageTypes, copied_transposed, false);
  table.test("copy", "keys of a fused tensor", kStorageTypes, copied_keys, false);
  table.test("copy", "f32 into the keys of a fused tensor", kStorageTypes, copied_keys, true);
}

}  // namespace

void add_elementwise_cases(CaseTable& table) {
  for (const std::int64_t n : {1, 3, 17, 257, 70001}) {
    table.test("fill", fmt::format("{}", n), kEveryType, filled, Shape{n});
    table.test("accumulate", fmt::format("{}", n), kStorageTypes, accumulated, n, false);
    table.test("accumulate", fmt::format("{}, into f32", n), kStorageTypes, accumulated, n, true);
    table.test("scale", fmt::format("{}", n), kStorageTypes, scaled, n);
  }
  add_copies(table);

  const Shape layer{7087872};
  table.time("fill", "7087872", kTimedTypes, filled, layer);
  table.time("copy", "7087872 from f32", kTimedTypes, copied, DType::kF32, layer);
  table.time("accumulate", "7087872, into f32", kTimedTypes, accumulated, layer[0], true);
}

}  // namespace phalanx::ops
