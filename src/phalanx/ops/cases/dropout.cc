#include "phalanx/ops/dropout.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct DropoutSize {
  std::int64_t s, b, h;
};

std::string dropout_name(const DropoutSize& size, double probability, const char* more = "") {
  return fmt::format("{}x{}x{}, p = {}{}", size.s, size.b, size.h, probability, more);
}

// Every rounding of the fusion is defined, so results must be equal.
Job forward(Operands& operands, const DropoutSize& size, double probability, bool bias,
            bool in_place, bool fp32_residual = false) {
  const Shape shape{size.s, size.b, size.h};
  const DType stream = operands.stream(fp32_residual);
  BiasDropoutResidual op;
  op.residual = operands.uniform(stream, shape);
  op.out = in_place ? op.residual : operands.output(stream, shape);
  op.x = operands.uniform(shape);
  if (bias) op.bias = operands.uniform({size.h});
  op.dropout = case_dropout(probability);
  op.rows = operands.rows(size.s, size.b, 5);
  return make_job(op, bias_dropout_residual, {{op.out, 0.0}});
}

Job backward(Operands& operands, const DropoutSize& size, double probability, bool in_place,
             bool fp32_residual = false) {
  const Shape shape{size.s, size.b, size.h};
  DropoutBackward op;
  op.dout = operands.uniform(operands.stream(fp32_residual), shape);
  op.dx = in_place ? op.dout : operands.output(shape);
  op.dropout = case_dropout(probability);
  op.rows = operands.rows(size.s, size.b, 5);
  return make_job(op, dropout_backward, {{op.dx, 0.0}});
}

// The residual's derivative is the cotangent itself, and the bias enters like x.
GradientJob gradients(Operands& operands, const DropoutSize& size) {
  const Shape shape{size.s, size.b, size.h};
  const RowCoordinates rows = operands.rows(size.s, size.b);
  const BiasDropoutResidual op{.out = operands.output(shape),
                               .x = operands.uniform(shape),
                               .bias = operands.uniform({size.h}),
                               .residual = operands.uniform(shape),
                               .dropout = case_dropout(0.3),
                               .rows = rows};
  const DropoutBackward back{.dx = operands.output(shape),
                             .dout = operands.uniform(shape),
                             .dropout = op.dropout,
                             .rows = rows};
  const BiasGradient sums{.dbias = operands.filled(DType::kF64, {size.h}, 0.0),
                          .dy = back.dx.rows()};
  GradientJob job;
  job.forward = call_of(bias_dropout_residual, op);
  job.backward = [back, sums](Context& context) {
    dropout_backward(context, back);
    bias_gradient(context, sums);
  };
  job.outputs = {{op.out, back.dout}};
  job.operands = {{op.x, back.dx}, {op.bias, sums.dbias}, {op.residual, back.dout}};
  return job;
}

// A rank's part of the features.
Job cut(Operands& operands, const DropoutSize& size, double probability, std::int64_t first) {
  const Shape shape{size.s, size.b, size.h};
  DropoutBackward op{.dx = operands.output(shape),
                     .dout = operands.uniform(shape),
                     .dropout = case_dropout(probability),
                     .rows = operands.rows(size.s, size.b, 5)};
  op.dropout.first_feature = first;
  return make_job(op, dropout_backward, {{op.dx, 0.0}});
}

Job jittered(Operands& operands, const DropoutSize& size, bool in_place) {
  const Shape shape{size.s, size.b, size.h};
  Jitter op;
  op.x = operands.uniform(operands.full(), shape);
  op.epsilon = 0.125;
  op.y = in_place ? op.x : operands.output(operands.full(), shape);
  const Dropout coordinates = case_dropout(0.1);
  op.key = coordinates.key;
  op.site = coordinates.site;
  op.rows = operands.rows(size.s, size.b, 5);
  return make_job(op, jitter, {{op.y, 0.0}});
}

void add_cut(CaseTable& table, double probability) {
  const DropoutSize size{3, 2, 600};
  for (const std::int64_t first : {4, 1000}) {
    table.test("dropout_backward",
               dropout_name(size, probability, fmt::format(", from {}", first).c_str()),
               kStorageTypes, cut, size, probability, first);
  }
}

}  // namespace

void add_dropout_cases(CaseTable& table) {
  for (const std::int64_t columns : kOddColumns) {
    const DropoutSize size{2, 1, columns};
    table.test("bias_dropout_residual", dropout_name(size, 0.1, ", bias"), kStorageTypes, forward,
               size, 0.1, true, false, false);
  }
  for (const double probability : {0.0, 0.1, 0.5}) {
    for (const DropoutSize& size :
         {DropoutSize{1, 1, 1}, DropoutSize{3, 2, 17}, DropoutSize{17, 1, 65},
          DropoutSize{9, 3, 257}, DropoutSize{0, 2, 17}}) {
      const auto add = [&](const char* op, const char* more, auto... build) {
        table.test(op, dropout_name(size, probability, more), kStorageTypes, build...);
      };
      add("bias_dropout_residual", "", forward, size, probability, false, false, false);
      add("bias_dropout_residual", ", bias", forward, size, probability, true, false, false);
      add("bias_dropout_residual", ", bias, in place", forward, size, probability, true, true,
          false);
      add("dropout_backward", "", backward, size, probability, false, false);
      add("dropout_backward", ", in place", backward, size, probability, true, false);
      const auto add_fp32 = [&](const char* op, const char* more, auto... build) {
        table.test(op, dropout_name(size, probability, more), k16BitTypes, build...);
      };
      for (const bool bias : {false, true}) {
        add_fp32("bias_dropout_residual",
                 bias ? ", bias, fp32 residual in place" : ", fp32 residual", forward, size,
                 probability, bias, bias, true);
      }
      add_fp32("dropout_backward", ", fp32 residual", backward, size, probability, false, true);
    }
    add_cut(table, probability);
    if (probability == 0.5) continue;
    const DropoutSize large{256, 4, 768};
    table.time("bias_dropout_residual", dropout_name(large, probability), kTimedTypes, forward,
               large, probability, true, true, false);
    table.time("dropout_backward", dropout_name(large, probability), kTimedTypes, backward, large,
               probability, false, false);
    table.time("bias_dropout_residual", dropout_name(large, probability, ", fp32 residual"),
               k16BitTypes, forward, large, probability, true, true, true);
  }
  for (const DropoutSize& size : {DropoutSize{1, 1, 1}, DropoutSize{3, 2, 17},
                                  DropoutSize{9, 3, 256}, DropoutSize{0, 2, 17}}) {
    for (const bool in_place : {false, true}) {
      table.test("jitter",
                 fmt::format("{}x{}x{}{}", size.s, size.b, size.h, in_place ? ", in place" : ""),
                 kFullPrecision, jittered, size, in_place);
    }
  }
  table.differentiate("bias_dropout_residual", dropout_name({5, 2, 7}, 0.3), gradients,
                      DropoutSize{5, 2, 7});
}

}  // namespace phalanx::ops
