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

Job accumulated(Operands& operands, DType destination, DType source, std::int64_t n) {
  const Accumulate op{.destination = contents(operands, destination, {n}),
                      .source = contents(operands, source, {n})};
  return make_job(op, accumulate, {{op.destination, 0.0}});
}

Job scaled(Operands& operands, std::int64_t n) {
  const Scale op{.y = operands.output({n}), .x = operands.uniform({n}), .factor = -0.375};
  return make_job(op, scale, {{op.y, 0.0}});
}

void add_copies(std::vector<Case>& tests) {
  for (const std::int64_t n : {1, 3, 17, 257, 70001}) {
    for (const DType source : kStorageTypes) {
      tests.push_back({"copy", fmt::format("{} from {}", n, name_of(source)), kStorageTypes,
                       [=](Operands& operands) { return copied(operands, source, {n}); }});
    }
    tests.push_back(
        {"copy", fmt::format("{} of the same type", n), kEveryType,
         [=](Operands& operands) { return copied(operands, operands.storage(), {n}); }});
  }
  tests.push_back({"copy", "special values", kStorageTypes, special_values});
  tests.push_back({"copy", "columns", kStorageTypes, copied_columns});
  tests.push_back({"copy", "transposed", kStorageTypes,
                   [](Operands& operands) { return copied_transposed(operands, true); }});
  tests.push_back({"copy", "heads first", kStorageTypes,
                   [](Operands& operands) { return copied_transposed(operands, false); }});
}

}  // namespace

void add_elementwise_cases(CaseTable& table) {
  for (const std::int64_t n : {1, 3, 17, 257, 70001}) {
    table.tests.push_back({"fill", fmt::format("{}", n), kEveryType,
                           [=](Operands& operands) { return filled(operands, {n}); }});
    table.tests.push_back(
        {"accumulate", fmt::format("{}", n), kStorageTypes, [=](Operands& operands) {
           return accumulated(operands, operands.storage(), operands.storage(), n);
         }});
    table.tests.push_back(
        {"accumulate", fmt::format("{}, into f32", n), kStorageTypes, [=](Operands& operands) {
           return accumulated(operands, DType::kF32, operands.storage(), n);
         }});
    table.tests.push_back({"scale", fmt::format("{}", n), kStorageTypes,
                           [=](Operands& operands) { return scaled(operands, n); }});
  }
  add_copies(table.tests);

  const Shape layer{7087872};
  table.performance.push_back({"fill", "7087872", kTimedTypes,
                               [=](Operands& operands) { return filled(operands, layer); }});
  table.performance.push_back({"copy", "7087872 from f32", kTimedTypes, [=](Operands& operands) {
                                 return copied(operands, DType::kF32, layer);
                               }});
  table.performance.push_back(
      {"accumulate", "7087872, into f32", kTimedTypes, [=](Operands& operands) {
         return accumulated(operands, DType::kF32, operands.storage(), layer[0]);
       }});
}

}  // namespace phalanx::ops
