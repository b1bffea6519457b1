#include "phalanx/ops/activation.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct ActivationSize {
  std::int64_t rows, n;
};

// Wide enough for both tails.
constexpr double kRange = 6.0;

std::string activation_name(const ActivationSize& size, ActivationKind kind, bool bias) {
  return fmt::format("{}x{}, {}{}", size.rows, size.n, name_of(kind), bias ? ", bias" : "");
}

Job forward(Operands& operands, const ActivationSize& size, ActivationKind kind, bool bias,
            double range = kRange) {
  BiasActivationForward op;
  op.kind = kind;
  op.y = operands.output({size.rows, size.n});
  op.x = operands.uniform(operands.storage(), {size.rows, size.n}, -range, range);
  if (bias) op.bias = operands.uniform({size.n});
  return make_job(op, bias_activation_forward, {near(op.y, 8)});
}

Job backward(Operands& operands, const ActivationSize& size, ActivationKind kind, bool bias,
             bool in_place, double range = kRange) {
  const Shape shape{size.rows, size.n};
  BiasActivationBackward op;
  op.kind = kind;
  op.dy = operands.uniform(shape);
  op.dx = in_place ? op.dy : operands.output(shape);
  op.x = operands.uniform(operands.storage(), shape, -range, range);
  if (bias) op.bias = operands.uniform({size.n});
  return make_job(op, bias_activation_backward, {near(op.dx, 12)});
}

// The bias enters like x, so its derivative is the column sums of dx.
GradientJob gradients(Operands& operands, const ActivationSize& size, ActivationKind kind) {
  const Shape shape{size.rows, size.n};
  const BiasActivationForward op{.y = operands.output(shape),
                                 .x = operands.uniform(DType::kF64, shape, -3.0, 3.0),
                                 .bias = operands.uniform({size.n}),
                                 .kind = kind};
  const BiasActivationBackward back{.dx = operands.output(shape),
                                    .dy = operands.uniform(shape),
                                    .x = op.x,
                                    .bias = op.bias,
                                    .kind = kind};
  const BiasGradient sums{.dbias = operands.filled(DType::kF64, {size.n}, 0.0), .dy = back.dx};
  GradientJob job;
  job.forward = call_of(bias_activation_forward, op);
  job.backward = [back, sums](Context& context) {
    bias_activation_backward(context, back);
    bias_gradient(context, sums);
  };
  job.outputs = {{op.y, back.dy}};
  job.operands = {{op.x, back.dx}, {op.bias, sums.dbias}};
  return job;
}

Job gated_forward(Operands& operands, const ActivationSize& size, ActivationKind kind, bool bias,
                  double range = kRange) {
  GatedActivationForward op;
  op.kind = kind;
  op.y = operands.output({size.rows, size.n});
  op.x = operands.uniform(operands.storage(), {size.rows, 2 * size.n}, -range, range);
  if (bias) op.bias = operands.uniform({2 * size.n});
  return make_job(op, gated_activation_forward, {near(op.y, 8)});
}

Job gated_backward(Operands& operands, const ActivationSize& size, ActivationKind kind, bool bias,
                   double range = kRange) {
  GatedActivationBackward op;
  op.kind = kind;
  op.dx = operands.output({size.rows, 2 * size.n});
  op.dy = operands.uniform({size.rows, size.n});
  op.x = operands.uniform(operands.storage(), {size.rows, 2 * size.n}, -range, range);
  if (bias) op.bias = operands.uniform({2 * size.n});
  return make_job(op, gated_activation_backward, {near(op.dx, 12)});
}

GradientJob gated_gradients(Operands& operands, const ActivationSize& size, ActivationKind kind) {
  const Shape pairs{size.rows, 2 * size.n};
  const GatedActivationForward op{.y = operands.output({size.rows, size.n}),
                                  .x = operands.uniform(DType::kF64, pairs, -3.0, 3.0),
                                  .bias = operands.uniform({2 * size.n}),
                                  .kind = kind};
  const GatedActivationBackward back{.dx = operands.output(pairs),
                                     .dy = operands.uniform({size.rows, size.n}),
                                     .x = op.x,
                                     .bias = op.bias,
                                     .kind = kind};
  const BiasGradient sums{.dbias = operands.filled(DType::kF64, {2 * size.n}, 0.0), .dy = back.dx};
  GradientJob job;
  job.forward = call_of(gated_activation_forward, op);
  job.backward = [back, sums](Context& context) {
    gated_activation_backward(context, back);
    bias_gradient(context, sums);
  };
  job.outputs = {{op.y, back.dy}};
  job.operands = {{op.x, back.dx}, {op.bias, sums.dbias}};
  return job;
}

void add_gated_cases(CaseTable& table, ActivationKind kind) {
  const auto add = [&](const ActivationSize& size, bool bias, double range) {
    const std::string name =
        activation_name(size, kind, bias) + (range == kRange ? "" : ", far tails");
    table.test("gated_activation_forward", name, kStorageTypes, gated_forward, size, kind, bias,
               range);
    table.test("gated_activation_backward", name, kStorageTypes, gated_backward, size, kind, bias,
               range);
  };
  for (const bool bias : {false, true}) {
    for (const ActivationSize& size : {ActivationSize{1, 1}, ActivationSize{3, 17},
                                       ActivationSize{65, 129}, ActivationSize{0, 33}}) {
      add(size, bias, kRange);
    }
  }
  add({4, 33}, false, 150.0);
  table.differentiate("gated_activation", activation_name({7, 5}, kind, true), gated_gradients,
                      ActivationSize{7, 5}, kind);
}

Job tanh_job(Operands& operands, const Shape& shape, bool in_place) {
  const Tensor x = operands.uniform(operands.storage(), shape, -kRange, kRange);
  const TanhForward op{.y = in_place ? x : operands.output(shape), .x = x};
  return make_job(op, tanh_forward, {near(op.y, 2)});
}

Job tanh_backward_job(Operands& operands, const Shape& shape, bool in_place) {
  const Tensor dy = operands.uniform(shape);
  const TanhBackward op{
      .dx = in_place ? dy : operands.output(shape), .dy = dy, .y = operands.uniform(shape)};
  return make_job(op, tanh_backward, {near(op.dx, 2)});
}

GradientJob tanh_gradients(Operands& operands, const Shape& shape) {
  const TanhForward op{.y = operands.output(shape), .x = operands.uniform(shape)};
  const TanhBackward back{.dx = operands.output(shape), .dy = operands.uniform(shape), .y = op.y};
  return {call_of(tanh_forward, op),
          call_of(tanh_backward, back),
          {{op.y, back.dy}},
          {{op.x, back.dx}}};
}

void add_tanh_cases(CaseTable& table) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{2, 3, 5}, Shape{33, 1024}}) {
    for (const bool in_place : {false, true}) {
      const std::string description = shape.to_string() + (in_place ? ", in place" : "");
      table.test("tanh_forward", description, kStorageTypes, tanh_job, shape, in_place);
      table.test("tanh_backward", description, kStorageTypes, tanh_backward_job, shape, in_place);
    }
  }
  table.differentiate("tanh", "3x5", tanh_gradients, Shape{3, 5});
}

}  // namespace

void add_activation_cases(CaseTable& table) {
  for (const ActivationKind kind : kActivationKinds) {
    for (const ActivationSize& size :
         {ActivationSize{1, 1}, ActivationSize{3, 17}, ActivationSize{65, 257},
          ActivationSize{257, 64}, ActivationSize{0, 33}}) {
      for (const bool bias : {false, true}) {
        table.test("bias_activation_forward", activation_name(size, kind, bias), kStorageTypes,
                   forward, size, kind, bias, kRange);
        table.test("bias_activation_backward", activation_name(size, kind, bias), kStorageTypes,
                   backward, size, kind, bias, false, kRange);
      }
      table.test("bias_activation_backward", activation_name(size, kind, true) + ", in place",
                 kStorageTypes, backward, size, kind, true, true, kRange);
    }
    for (const std::int64_t columns : kOddColumns) {
      const ActivationSize size{2, columns};
      table.test("bias_activation_forward", activation_name(size, kind, true), kStorageTypes,
                 forward, size, kind, true, kRange);
    }
    // Far tails: x or 0, never NaN.
    const ActivationSize tails{4, 33};
    table.test("bias_activation_forward", activation_name(tails, kind, false) + ", |x| to 3e4",
               kStorageTypes, forward, tails, kind, false, 3e4);
    table.test("bias_activation_backward", activation_name(tails, kind, false) + ", |x| to 3e4",
               kStorageTypes, backward, tails, kind, false, false, 3e4);
    table.differentiate("bias_activation", activation_name({7, 5}, kind, true), gradients,
                        ActivationSize{7, 5}, kind);
  }

  add_tanh_cases(table);
  for (const ActivationKind kind : kActivationKinds) add_gated_cases(table, kind);
  for (const std::int64_t columns : kOddColumns) {
    const ActivationSize size{2, columns};
    table.test("gated_activation_forward", activation_name(size, ActivationKind::kSilu, true),
               kStorageTypes, gated_forward, size, ActivationKind::kSilu, true, kRange);
  }

  for (const ActivationKind kind : {ActivationKind::kGeluTanh, ActivationKind::kGeluErf}) {
    const ActivationSize large{1024, 3072};
    table.time("bias_activation_forward", activation_name(large, kind, true), kTimedTypes, forward,
               large, kind, true, kRange);
    table.time("bias_activation_backward", activation_name(large, kind, true), kTimedTypes,
               backward, large, kind, true, true, kRange);
  }
  // As many elements of fc1's output as above.
  const ActivationSize pairs{1024, 1536};
  table.time("gated_activation_forward", activation_name(pairs, ActivationKind::kSilu, false),
             kTimedTypes, gated_forward, pairs, ActivationKind::kSilu, false, kRange);
  table.time("gated_activation_backward", activation_name(pairs, ActivationKind::kSilu, false),
             kTimedTypes, gated_backward, pairs, ActivationKind::kSilu, false, kRange);
}

}  // namespace phalanx::ops
