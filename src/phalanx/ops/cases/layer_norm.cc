#include "phalanx/ops/layer_norm.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct LayerNormSize {
  std::int64_t rows, h;
};

std::string layer_norm_name(const LayerNormSize& size) {
  return fmt::format("{}x{}", size.rows, size.h);
}

LayerNormForward inputs(Operands& operands, const LayerNormSize& size, double offset,
                        bool fp32_residual = false) {
  LayerNormForward op;
  op.y = operands.output({size.rows, size.h});
  op.mean = operands.output(operands.full(), {size.rows});
  op.rstd = operands.output(operands.full(), {size.rows});
  op.x = operands.uniform(operands.stream(fp32_residual), {size.rows, size.h}, offset - 2.0,
                          offset + 2.0);
  op.weight = operands.uniform({size.h});
  op.bias = operands.uniform({size.h});
  return op;
}

// offset: the rows' mean. A mean far from 0 costs digits, units of them.
Job forward(Operands& operands, const LayerNormSize& size, double offset, double units_of_y,
            bool fp32_residual = false) {
  const LayerNormForward op = inputs(operands, size, offset, fp32_residual);
  return make_job(op, layer_norm_forward,
                  {near(op.y, units_of_y), near(op.mean, 4), near(op.rstd, units_of_y)});
}

Job apply(Operands& operands, const LayerNormSize& size, bool fp32_residual = false) {
  const LayerNormForward forward = inputs(operands, size, 0.5, fp32_residual);
  layer_norm_forward(operands.preparation(), forward);
  const LayerNormApply op{.y = operands.output({size.rows, size.h}),
                          .x = forward.x,
                          .mean = forward.mean,
                          .rstd = forward.rstd,
                          .weight = forward.weight,
                          .bias = forward.bias};
  return make_job(op, layer_norm_apply, {near(op.y, 8)});
}

enum class Residual { kNone, kSeparate, kInPlace };

LayerNormBackward backward_op(Operands& operands, const LayerNormForward& forward,
                              Residual residual) {
  const Shape shape = forward.x.shape;
  const DType stream = forward.x.dtype;
  LayerNormBackward op;
  op.dx = residual == Residual::kInPlace ? operands.uniform(stream, shape)
                                         : operands.output(stream, shape);
  op.dweight = operands.output(operands.full(), {shape[1]});
  op.dbias = operands.output(operands.full(), {shape[1]});
  op.dy = operands.uniform(shape);
  op.x = forward.x;
  op.mean = forward.mean;
  op.rstd = forward.rstd;
  op.weight = forward.weight;
  if (residual == Residual::kSeparate) op.residual = operands.uniform(stream, shape);
  if (residual == Residual::kInPlace) op.residual = op.dx;
  return op;
}

Job backward(Operands& operands, const LayerNormSize& size, Residual residual,
             bool fp32_residual = false) {
  const LayerNormForward forward = inputs(operands, size, 0.5, fp32_residual);
  layer_norm_forward(operands.preparation(), forward);
  const LayerNormBackward op = backward_op(operands, forward, residual);
  return make_job(op, layer_norm_backward,
                  {near(op.dx, 16, 1, 1.0), near(op.dweight, 24), near(op.dbias, 24)});
}

// The weight kept less 1, in all three ops.
Job zero_centred(Operands& operands, const LayerNormSize& size) {
  LayerNormForward forward = inputs(operands, size, 0.5);
  forward.zero_centred = true;
  LayerNormApply apply{.y = operands.output({size.rows, size.h}),
                       .x = forward.x,
                       .mean = forward.mean,
                       .rstd = forward.rstd,
                       .weight = forward.weight,
                       .bias = forward.bias,
                       .zero_centred = true};
  LayerNormBackward backward = backward_op(operands, forward, Residual::kSeparate);
  backward.zero_centred = true;
  return {[=](Context& context) {
            layer_norm_forward(context, forward);
            layer_norm_apply(context, apply);
            layer_norm_backward(context, backward);
          },
          cost(backward),
          {near(forward.y, 8), near(forward.mean, 4), near(forward.rstd, 8), near(apply.y, 8),
           near(backward.dx, 16, 1, 1.0), near(backward.dweight, 24), near(backward.dbias, 24)}};
}

GradientJob gradients(Operands& operands, const LayerNormSize& size, bool zero_centred) {
  LayerNormForward op = inputs(operands, size, 0.5);
  op.zero_centred = zero_centred;
  LayerNormBackward back = backward_op(operands, op, Residual::kNone);
  back.zero_centred = zero_centred;
  GradientJob job;
  job.forward = [op](Context& context) { layer_norm_forward(context, op); };
  job.backward = [back](Context& context) { layer_norm_backward(context, back); };
  job.outputs = {{op.y, back.dy}};
  job.operands = {{op.x, back.dx}, {op.weight, back.dweight}, {op.bias, back.dbias}};
  return job;
}

}  // namespace

void add_layer_norm_cases(CaseTable& table) {
  for (const LayerNormSize& size :
       {LayerNormSize{1, 1}, LayerNormSize{3, 2}, LayerNormSize{1, 17}, LayerNormSize{17, 65},
        LayerNormSize{65, 257}, LayerNormSize{257, 64}, LayerNormSize{5, 768},
        LayerNormSize{0, 65}}) {
    const auto add = [&](const char* op, const std::string& description, auto build) {
      table.tests.push_back({op, description, kStorageTypes, build});
    };
    add("layer_norm_forward", layer_norm_name(size),
        [size](Operands& operands) { return forward(operands, size, 0.5, 8); });
    add("layer_norm_apply", layer_norm_name(size),
        [size](Operands& operands) { return apply(operands, size); });
    add("layer_norm_backward", layer_norm_name(size),
        [size](Operands& operands) { return backward(operands, size, Residual::kNone); });
    add("layer_norm_backward", layer_norm_name(size) + ", residual",
        [size](Operands& operands) { return backward(operands, size, Residual::kSeparate); });
    add("layer_norm_backward", layer_norm_name(size) + ", residual in place",
        [size](Operands& operands) { return backward(operands, size, Residual::kInPlace); });
    const auto add_fp32 = [&](const char* op, const std::string& more, auto build) {
      table.tests.push_back(
          {op, layer_norm_name(size) + ", fp32 residual" + more, k16BitTypes, build});
    };
    add_fp32("layer_norm_forward", "",
             [size](Operands& operands) { return forward(operands, size, 0.5, 8, true); });
    add_fp32("layer_norm_apply", "",
             [size](Operands& operands) { return apply(operands, size, true); });
    add_fp32("layer_norm_backward", "", [size](Operands& operands) {
      return backward(operands, size, Residual::kSeparate, true);
    });
    add_fp32("layer_norm_backward", " in place", [size](Operands& operands) {
      return backward(operands, size, Residual::kInPlace, true);
    });
  }
  for (const std::int64_t columns : kOddColumns) {
    const LayerNormSize size{3, columns};
    table.tests.push_back({"layer_norm_forward", layer_norm_name(size), kStorageTypes,
                           [size](Operands& operands) { return forward(operands, size, 0.5, 8); }});
    table.tests.push_back(
        {"layer_norm_backward", layer_norm_name(size), kStorageTypes,
         [size](Operands& operands) { return backward(operands, size, Residual::kSeparate); }});
  }
  // The variance must not be the difference of two large numbers: that would cost another factor of
  // 200.
  table.tests.push_back(
      {"layer_norm_forward", "9x257, mean 200", kFullPrecision, [](Operands& operands) {
         return forward(operands, {9, 257}, 200.0, 1000);
       }});
  table.tests.push_back(
      {"layer_norm_backward", "17x65, zero-centred", kStorageTypes, [](Operands& operands) {
         return zero_centred(operands, {17, 65});
       }});
  for (const bool zero_centred : {false, true}) {
    table.gradients.push_back(
        {"layer_norm", zero_centred ? "5x17, zero-centred" : "5x17", [=](Operands& operands) {
           return gradients(operands, {5, 17}, zero_centred);
         }});
  }

  const LayerNormSize large{1024, 768};
  const auto add = [&](const char* op, auto build) {
    table.performance.push_back({op, layer_norm_name(large), kTimedTypes, build});
  };
  add("layer_norm_forward",
      [large](Operands& operands) { return forward(operands, large, 0.5, 8); });
  add("layer_norm_apply", [large](Operands& operands) { return apply(operands, large); });
  add("layer_norm_backward",
      [large](Operands& operands) { return backward(operands, large, Residual::kSeparate); });
  const auto add_fp32 = [&](const char* op, auto build) {
    table.performance.push_back(
        {op, layer_norm_name(large) + ", fp32 residual", k16BitTypes, build});
  };
  add_fp32("layer_norm_forward",
           [large](Operands& operands) { return forward(operands, large, 0.5, 8, true); });
  add_fp32("layer_norm_backward", [large](Operands& operands) {
    return backward(operands, large, Residual::kSeparate, true);
  });
}

}  // namespace phalanx::ops
