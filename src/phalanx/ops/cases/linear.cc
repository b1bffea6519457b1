#include "phalanx/ops/linear.h"

#include <cmath>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct LinearSize {
  std::int64_t rows, n, k;
};

std::string linear_name(const LinearSize& size) {
  return fmt::format("{}x{}x{}", size.rows, size.n, size.k);
}

// The error of a sum of products grows with the square root of their number.
double sum_units(std::int64_t terms) { return 8.0 + std::sqrt(static_cast<double>(terms)); }

// full_output: f32 whatever the storage type, as logits may be.
Job forward(Operands& operands, const LinearSize& size, bool bias, bool full_output) {
  LinearForward op;
  op.y = operands.output(full_output ? operands.full() : operands.storage(), {size.rows, size.n});
  op.x = operands.uniform({size.rows, size.k});
  op.weight = operands.uniform({size.n, size.k});
  if (bias) op.bias = operands.uniform({size.n});
  return make_job(op, linear_forward, {near(op.y, sum_units(size.k))});
}

Job input_gradient(Operands& operands, const LinearSize& size) {
  LinearInputGradient op;
  op.dx = operands.output({size.rows, size.k});
  op.dy = operands.uniform({size.rows, size.n});
  op.weight = operands.uniform({size.n, size.k});
  return make_job(op, linear_input_gradient, {near(op.dx, sum_units(size.n))});
}

Job weight_gradient(Operands& operands, const LinearSize& size, bool accumulate) {
  LinearWeightGradient op;
  op.accumulate = accumulate;
  op.dweight = accumulate ? operands.uniform(operands.full(), {size.n, size.k})
                          : operands.output(operands.full(), {size.n, size.k});
  op.dy = operands.uniform({size.rows, size.n});
  op.x = operands.uniform({size.rows, size.k});
  return make_job(op, linear_weight_gradient, {near(op.dweight, sum_units(size.rows))});
}

// What a product is fused with: its outputs are those of the parts, of which each rounds.
Job forward_with_activation(Operands& operands, const LinearSize& size, ActivationKind kind) {
  LinearForward op;
  op.y = operands.output({size.rows, size.n});
  op.x = operands.uniform({size.rows, size.k});
  op.weight = operands.uniform({size.n, size.k});
  op.activation = {.activated = operands.output({size.rows, size.n}),
                   .bias = operands.uniform({size.n}),
                   .kind = kind};
  return make_job(
      op, linear_forward,
      {near(op.y, sum_units(size.k)), near(op.activation.activated, 2.0 * sum_units(size.k))});
}

Job input_gradient_of_activation(Operands& operands, const LinearSize& size, ActivationKind kind) {
  LinearInputGradient op;
  op.dx = operands.output({size.rows, size.k});
  op.dy = operands.uniform({size.rows, size.n});
  op.weight = operands.uniform({size.n, size.k});
  op.activation = {
      .x = operands.uniform({size.rows, size.k}), .bias = operands.uniform({size.k}), .kind = kind};
  return make_job(op, linear_input_gradient, {near(op.dx, 2.0 * sum_units(size.n))});
}

Job weight_and_bias_gradient(Operands& operands, const LinearSize& size, bool accumulate) {
  LinearWeightGradient op;
  op.accumulate = accumulate;
  op.dweight = accumulate ? operands.uniform(operands.full(), {size.n, size.k})
                          : operands.output(operands.full(), {size.n, size.k});
  op.dbias = accumulate ? operands.uniform(operands.full(), {size.n})
                        : operands.output(operands.full(), {size.n});
  op.dy = operands.uniform({size.rows, size.n});
  op.x = operands.uniform({size.rows, size.k});
  return make_job(op, linear_weight_gradient,
                  {near(op.dweight, sum_units(size.rows)), near(op.dbias, sum_units(size.rows))});
}

Job bias_sum(Operands& operands, const LinearSize& size, bool accumulate = true) {
  BiasGradient op;
  op.accumulate = accumulate;
  op.dbias = accumulate ? operands.uniform(operands.full(), {size.n})
                        : operands.output(operands.full(), {size.n});
  op.dy = operands.uniform({size.rows, size.n});
  return make_job(op, bias_gradient, {near(op.dbias, sum_units(size.rows))});
}

template <typename... Build>
void add_product(std::vector<Case>& cases, std::span<const DType> types, const std::string& op,
                 const std::string& description, Build... build) {
  cases.push_back(case_of(op, description, types, build...));
  cases.back().product = true;
}

void add_products(std::vector<Case>& cases, std::span<const DType> types, const LinearSize& size) {
  add_product(cases, types, "linear_forward", linear_name(size) + ", bias", forward, size, true,
              false);
  add_product(cases, types, "linear_input_gradient", linear_name(size), input_gradient, size);
  add_product(cases, types, "linear_weight_gradient", linear_name(size) + ", accumulate",
              weight_gradient, size, true);
}

GradientJob all_gradients(Operands& operands, const LinearSize& size) {
  const LinearForward op{.y = operands.output({size.rows, size.n}),
                         .x = operands.uniform({size.rows, size.k}),
                         .weight = operands.uniform({size.n, size.k}),
                         .bias = operands.uniform({size.n})};
  const Tensor dy = operands.uniform({size.rows, size.n});
  const LinearInputGradient input{
      .dx = operands.output({size.rows, size.k}), .dy = dy, .weight = op.weight};
  const LinearWeightGradient weight{
      .dweight = operands.output({size.n, size.k}), .dy = dy, .x = op.x, .accumulate = false};
  const BiasGradient bias{.dbias = operands.filled(DType::kF64, {size.n}, 0.0), .dy = dy};
  GradientJob job;
  job.forward = call_of(linear_forward, op);
  job.backward = [input, weight, bias](Context& context) {
    linear_input_gradient(context, input);
    linear_weight_gradient(context, weight);
    bias_gradient(context, bias);
  };
  job.outputs = {{op.y, dy}};
  job.operands = {{op.x, input.dx}, {op.weight, weight.dweight}, {op.bias, bias.dbias}};
  return job;
}

}  // namespace

void add_linear_cases(CaseTable& table) {
  const LinearSize sizes[] = {{1, 1, 1},     {3, 17, 5},   {17, 1, 65},   {1, 65, 257},
                              {65, 257, 17}, {257, 3, 65}, {64, 96, 128}, {5, 3072, 24},
                              {7, 24, 3072}, {0, 65, 257}, {3, 17, 0},    {3, 0, 5}};
  for (const LinearSize& size : sizes) {
    add_products(table.tests, kStorageTypes, size);
    table.test("bias_gradient", linear_name(size), kStorageTypes, bias_sum, size, true);
    table.test("bias_gradient", linear_name(size) + ", overwrite", kStorageTypes, bias_sum, size,
               false);
  }
  const LinearSize odd{33, 65, 19};
  const auto add = [&](auto... row) { add_product(table.tests, kStorageTypes, row...); };
  add("linear_forward", "33x65x19", forward, odd, false, false);
  add("linear_forward", "33x65x19, f32 output", forward, odd, false, true);
  add("linear_forward", "33x65x19, bias, f32 output", forward, odd, true, true);
  for (const LinearSize& size : {odd, LinearSize{0, 65, 257}}) {
    add("linear_weight_gradient", linear_name(size) + ", overwrite", weight_gradient, size, false);
  }
  for (const LinearSize& size : {odd, LinearSize{9, 50, 400}, LinearSize{70, 20, 3},
                                 LinearSize{0, 50, 400}, LinearSize{9, 50, 0}}) {
    for (const ActivationKind kind : kActivationKinds) {
      const std::string name = fmt::format("{}, {}", linear_name(size), name_of(kind));
      add("linear_forward", name, forward_with_activation, size, kind);
      add("linear_input_gradient", name, input_gradient_of_activation, size, kind);
    }
    for (const bool accumulate : {true, false}) {
      add("linear_weight_gradient",
          linear_name(size) + (accumulate ? ", bias" : ", bias, overwrite"),
          weight_and_bias_gradient, size, accumulate);
    }
  }
  table.differentiate("linear", "7x5x3", all_gradients, LinearSize{7, 5, 3});

  // QKV, attention output, the two of the MLP, and the logits.
  for (const LinearSize& size :
       {LinearSize{1024, 2304, 768}, LinearSize{1024, 768, 768}, LinearSize{1024, 3072, 768},
        LinearSize{1024, 768, 3072}, LinearSize{1024, 50304, 768}}) {
    add_products(table.performance, kTimedTypes, size);
  }
  table.time("bias_gradient", "1024x3072", kTimedTypes, bias_sum, LinearSize{1024, 3072, 1}, true);
}

}  // namespace phalanx::ops
