#include "phalanx/ops/rms_norm.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct RmsNormSize {
  std::int64_t rows, h;
};

// What a case varies beside its size.
struct Variant {
  bool zero_centred = false;
  bool fp32_residual = false;
  bool has_residual = true;
  bool in_place = false;  // dx is the residual
  double low = -2.0, high = 2.0;

  std::string name(const RmsNormSize& size) const {
    return fmt::format("{}x{}{}{}{}{}", size.rows, size.h, zero_centred ? ", zero-centred" : "",
                       fp32_residual ? ", fp32 residual" : "", has_residual ? "" : ", alone",
                       in_place ? ", in place" : "");
  }
};

RmsNormForward inputs(Operands& operands, const RmsNormSize& size, const Variant& variant) {
  return {.y = operands.output({size.rows, size.h}),
          .rstd = operands.output(operands.full(), {size.rows}),
          .x = operands.uniform(operands.stream(variant.fp32_residual), {size.rows, size.h},
                                variant.low, variant.high),
          .weight = operands.uniform({size.h}),
          .zero_centred = variant.zero_centred};
}

Job forward(Operands& operands, const RmsNormSize& size, const Variant& variant) {
  const RmsNormForward op = inputs(operands, size, variant);
  // Without vectors a sum has few parts, of a thousand squares each.
  return make_job(op, rms_norm_forward, {near(op.y, 32), near(op.rstd, 32)});
}

Job apply(Operands& operands, const RmsNormSize& size, const Variant& variant) {
  const RmsNormForward forward = inputs(operands, size, variant);
  rms_norm_forward(operands.preparation(), forward);
  const RmsNormApply op{.y = operands.output({size.rows, size.h}),
                        .x = forward.x,
                        .rstd = forward.rstd,
                        .weight = forward.weight,
                        .zero_centred = variant.zero_centred};
  return make_job(op, rms_norm_apply, {near(op.y, 8)});
}

RmsNormBackward backward_op(Operands& operands, const RmsNormForward& forward,
                            const Variant& variant) {
  const Shape shape = forward.x.shape;
  const DType stream = forward.x.dtype;
  RmsNormBackward op{
      .dx = variant.in_place ? operands.uniform(stream, shape) : operands.output(stream, shape),
      .dweight = operands.output(operands.full(), {shape[1]}),
      .dy = operands.uniform(shape),
      .x = forward.x,
      .rstd = forward.rstd,
      .weight = forward.weight,
      .zero_centred = variant.zero_centred};
  if (variant.has_residual) {
    op.residual = variant.in_place ? op.dx : operands.uniform(stream, shape);
  }
  return op;
}

Job backward(Operands& operands, const RmsNormSize& size, const Variant& variant) {
  const RmsNormForward forward = inputs(operands, size, variant);
  rms_norm_forward(operands.preparation(), forward);
  const RmsNormBackward op = backward_op(operands, forward, variant);
  return make_job(op, rms_norm_backward, {near(op.dx, 16, 1, 1.0), near(op.dweight, 24)});
}

GradientJob gradients(Operands& operands, const RmsNormSize& size, const Variant& variant) {
  const RmsNormForward op = inputs(operands, size, variant);
  const RmsNormBackward back = backward_op(operands, op, variant);
  GradientJob job;
  job.forward = [op](Context& context) { rms_norm_forward(context, op); };
  job.backward = [back](Context& context) { rms_norm_backward(context, back); };
  job.outputs = {{op.y, back.dy}};
  job.operands = {{op.x, back.dx}, {op.weight, back.dweight}};
  return job;
}

}  // namespace

void add_rms_norm_cases(CaseTable& table) {
  const auto add = [](std::vector<Case>& cases, const char* op, std::span<const DType> types,
                      const RmsNormSize& size, const Variant& variant, auto build) {
    cases.push_back({op, variant.name(size), types,
                     [=](Operands& operands) { return build(operands, size, variant); }});
  };
  for (const RmsNormSize& size :
       {RmsNormSize{1, 1}, RmsNormSize{3, 2}, RmsNormSize{17, 65}, RmsNormSize{65, 257},
        RmsNormSize{257, 64}, RmsNormSize{5, 768}, RmsNormSize{0, 65}}) {
    for (const bool zero_centred : {false, true}) {
      for (const bool fp32_residual : {false, true}) {
        const std::span<const DType> types =
            fp32_residual ? std::span<const DType>(k16BitTypes) : kStorageTypes;
        const Variant variant{.zero_centred = zero_centred, .fp32_residual = fp32_residual};
        add(table.tests, "rms_norm_forward", types, size, variant, forward);
        add(table.tests, "rms_norm_apply", types, size, variant, apply);
        add(table.tests, "rms_norm_backward", types, size, variant, backward);
        Variant in_place = variant;
        in_place.in_place = true;
        add(table.tests, "rms_norm_backward", types, size, in_place, backward);
      }
    }
    add(table.tests, "rms_norm_backward", kStorageTypes, size, {.has_residual = false}, backward);
  }
  for (const std::int64_t columns : kOddColumns) {
    add(table.tests, "rms_norm_forward", kStorageTypes, {3, columns}, {}, forward);
    add(table.tests, "rms_norm_backward", kStorageTypes, {3, columns}, {}, backward);
  }
  for (const bool zero_centred : {false, true}) {
    const Variant variant{.zero_centred = zero_centred, .has_residual = false};
    table.gradients.push_back({"rms_norm", variant.name({5, 17}), [=](Operands& operands) {
                                 return gradients(operands, {5, 17}, variant);
                               }});
  }

  const RmsNormSize large{1024, 768};
  add(table.performance, "rms_norm_forward", kTimedTypes, large, {}, forward);
  add(table.performance, "rms_norm_apply", kTimedTypes, large, {}, apply);
  add(table.performance, "rms_norm_backward", kTimedTypes, large, {}, backward);
}

}  // namespace phalanx::ops
