#include "phalanx/ops/norm.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct NormSize {
  std::int64_t rows, h;
  std::int64_t places = 0;  // 0: rows have none

  // Of operands of rows, which are apart where there are places, and of statistics.
  template <typename Make>
  Tensor make_rows(const Make& make) const {
    if (places == 0) return make(Shape{rows, h});
    return make(Shape{rows, places + 1, h}).slice(1, 0, places);
  }
  Shape statistics() const { return places == 0 ? Shape{rows} : Shape{places, rows}; }
};

// The options of a case.
struct Variant {
  bool has_mean = false;  // true: layer norm; false: RMS norm
  bool zero_centred = false;
  bool fp32_residual = false;
  bool has_residual = true;
  bool in_place = false;  // dx is the residual
  double mean = 0.0;      // the mean of the rows; a large mean costs accuracy
  // Without vectors a sum has few parts, of a thousand squares each.
  double units = 32;

  std::string name(const NormSize& size) const {
    return fmt::format("{}x{}{}{}{}{}{}", size.rows,
                       size.places == 0 ? "" : fmt::format("{}x", size.places), size.h,
                       zero_centred ? ", zero-centred" : "", fp32_residual ? ", fp32 residual" : "",
                       has_residual ? "" : ", alone", in_place ? ", in place" : "");
  }
  std::string op(const char* pass) const {
    return (has_mean ? "layer_norm" : "rms_norm") + std::string(pass);
  }
};

constexpr Variant kLayerNorm{.has_mean = true, .mean = 0.5, .units = 8};
constexpr Variant kRmsNorm{};

NormForward inputs(Operands& operands, const NormSize& size, const Variant& variant) {
  const DType stream = operands.stream(variant.fp32_residual);
  NormForward op{.y = size.make_rows([&](const Shape& shape) { return operands.output(shape); }),
                 .rstd = operands.output(operands.full(), size.statistics()),
                 .x = size.make_rows([&](const Shape& shape) {
                   return operands.uniform(stream, shape, variant.mean - 2.0, variant.mean + 2.0);
                 }),
                 .weight = operands.uniform({size.h}),
                 .zero_centred = variant.zero_centred};
  if (variant.has_mean) {
    op.mean = operands.output(operands.full(), size.statistics());
    op.bias = operands.uniform({size.h});
  }
  return op;
}

Job forward(Operands& operands, const NormSize& size, const Variant& variant) {
  const NormForward op = inputs(operands, size, variant);
  std::vector<Output> outputs = {near(op.y, variant.units), near(op.rstd, variant.units)};
  if (op.mean) outputs.push_back(near(op.mean, 4));
  return make_job(op, norm_forward, outputs);
}

Job apply(Operands& operands, const NormSize& size, const Variant& variant) {
  const NormForward forward = inputs(operands, size, variant);
  norm_forward(operands.preparation(), forward);
  const NormApply op{
      .y = size.make_rows([&](const Shape& shape) { return operands.output(shape); }),
      .x = forward.x,
      .mean = forward.mean,
      .rstd = forward.rstd,
      .weight = forward.weight,
      .bias = forward.bias,
      .zero_centred = variant.zero_centred};
  return make_job(op, norm_apply, {near(op.y, 8)});
}

NormBackward backward_op(Operands& operands, const NormForward& forward, const NormSize& size,
                         const Variant& variant) {
  const DType stream = forward.x.dtype;
  const auto numbers = [&](DType dtype) {
    return size.make_rows([&](const Shape& shape) { return operands.uniform(dtype, shape); });
  };
  NormBackward op{
      .dx = variant.in_place ? numbers(stream) : size.make_rows([&](const Shape& shape) {
        return operands.output(stream, shape);
      }),
      .dweight = operands.output(operands.full(), {size.h}),
      .dy = numbers(operands.storage()),
      .x = forward.x,
      .mean = forward.mean,
      .rstd = forward.rstd,
      .weight = forward.weight,
      .zero_centred = variant.zero_centred};
  if (op.mean) op.dbias = operands.output(operands.full(), {size.h});
  if (variant.has_residual) {
    op.residual = variant.in_place ? op.dx : numbers(stream);
  }
  return op;
}

Job backward(Operands& operands, const NormSize& size, const Variant& variant) {
  const NormForward forward = inputs(operands, size, variant);
  norm_forward(operands.preparation(), forward);
  const NormBackward op = backward_op(operands, forward, size, variant);
  std::vector<Output> outputs = {near(op.dx, 16, 1, 1.0), near(op.dweight, 24)};
  if (op.mean) outputs.push_back(near(op.dbias, 24));
  return make_job(op, norm_backward, outputs);
}

GradientJob gradients(Operands& operands, const NormSize& size, const Variant& variant) {
  const NormForward op = inputs(operands, size, variant);
  const NormBackward back = backward_op(operands, op, size, variant);
  GradientJob job{call_of(norm_forward, op),
                  call_of(norm_backward, back),
                  {{op.y, back.dy}},
                  {{op.x, back.dx}, {op.weight, back.dweight}}};
  if (op.mean) job.operands.push_back({op.bias, back.dbias});
  return job;
}

void add_cases(CaseTable& table, const Variant& kind) {
  const auto add = [&](const char* pass, std::span<const DType> types, const NormSize& size,
                       const Variant& variant, auto build) {
    table.test(kind.op(pass), variant.name(size), types, build, size, variant);
  };
  Variant alone = kind;
  alone.has_residual = false;
  for (const NormSize& size :
       {NormSize{1, 1}, NormSize{3, 2}, NormSize{1, 17}, NormSize{17, 65}, NormSize{65, 257},
        NormSize{257, 64}, NormSize{5, 768}, NormSize{0, 65}}) {
    for (const bool zero_centred : {false, true}) {
      for (const bool fp32_residual : {false, true}) {
        const std::span<const DType> types =
            fp32_residual ? std::span<const DType>(k16BitTypes) : kStorageTypes;
        Variant variant = kind;
        variant.zero_centred = zero_centred;
        variant.fp32_residual = fp32_residual;
        add("_forward", types, size, variant, forward);
        add("_apply", types, size, variant, apply);
        add("_backward", types, size, variant, backward);
        variant.in_place = true;
        add("_backward", types, size, variant, backward);
      }
    }
    add("_backward", kStorageTypes, size, alone, backward);
  }
  // Heads, with one weight for all.
  for (const NormSize& size : {NormSize{1, 1, 1}, NormSize{17, 65, 2}, NormSize{70, 64, 3}}) {
    add("_forward", kStorageTypes, size, kind, forward);
    add("_apply", kStorageTypes, size, kind, apply);
    add("_backward", kStorageTypes, size, alone, backward);
  }
  add("_backward", k16BitTypes, {5, 64, 4}, kind, backward);
  // So wide that the CPU takes several rows together.
  add("_backward", kStorageTypes, {10, 2100}, kind, backward);
  for (const std::int64_t columns : kOddColumns) {
    add("_forward", kStorageTypes, {3, columns}, kind, forward);
    add("_backward", kStorageTypes, {3, columns}, kind, backward);
  }
  for (const bool zero_centred : {false, true}) {
    alone.zero_centred = zero_centred;
    for (const NormSize& size : {NormSize{5, 17}, NormSize{4, 9, 3}}) {
      table.differentiate(kind.op(""), alone.name(size), gradients, size, alone);
    }
  }

  const NormSize large{1024, 768};
  const auto time = [&](const char* pass, std::span<const DType> types, const Variant& variant,
                        auto build) {
    table.time(kind.op(pass), variant.name(large), types, build, large, variant);
  };
  time("_forward", kTimedTypes, kind, forward);
  time("_apply", kTimedTypes, kind, apply);
  time("_backward", kTimedTypes, kind, backward);
  if (!kind.has_mean) return;
  Variant fp32_residual = kind;
  fp32_residual.fp32_residual = true;
  time("_forward", k16BitTypes, fp32_residual, forward);
  time("_backward", k16BitTypes, fp32_residual, backward);
}

}  // namespace

void add_norm_cases(CaseTable& table) {
  add_cases(table, kLayerNorm);
  add_cases(table, kRmsNorm);
  // The variance must not be the difference of two large numbers: that would cost another factor of
  // 200.
  Variant far = kLayerNorm;
  far.mean = 200.0;
  far.units = 1000;
  table.test("layer_norm_forward", "9x257, mean 200", kFullPrecision, forward, NormSize{9, 257},
             far);
}

}  // namespace phalanx::ops
