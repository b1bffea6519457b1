#include "phalanx/ops/grouped_activation.h"

#include "phalanx/ops/cases/groups.h"
#include "phalanx/ops/grouped_linear.h"

namespace phalanx::ops {
namespace {

struct Spec {
  GroupSizes groups;
  std::int64_t n;
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = true;
  bool bias = true, probabilities = true;

  std::int64_t columns() const { return (gated ? 2 : 1) * n; }
};

std::string spec_name(const Spec& spec) {
  return fmt::format("{} x{}, {}{}{}{}", name_of(spec.groups), spec.n, name_of(spec.kind),
                     spec.gated ? ", gated" : "", spec.bias ? ", bias" : "",
                     spec.probabilities ? ", p" : "");
}

template <typename Op>
void set_inputs(Operands& operands, const Spec& spec, Op& op) {
  const std::int64_t rows = spec.groups.all();
  op.kind = spec.kind;
  op.gated = spec.gated;
  op.x = operands.uniform(operands.storage(), {rows, spec.columns()}, -3.0, 3.0);
  op.offsets = offsets_of(operands, spec.groups);
  if (spec.bias) op.bias = operands.uniform({spec.groups.groups(), spec.columns()});
  if (spec.probabilities) op.probabilities = operands.uniform(operands.full(), {rows}, 0.0, 1.0);
}

Job forward(Operands& operands, const Spec& spec) {
  GroupedActivationForward op;
  set_inputs(operands, spec, op);
  op.y = operands.output({spec.groups.all(), spec.n});
  return make_job(op, grouped_activation_forward, {near(rows_in_groups(op.y, spec.groups), 16)});
}

enum class Place { kApart, kInX, kInDy };

Job backward(Operands& operands, const Spec& spec, Place place) {
  GroupedActivationBackward op;
  set_inputs(operands, spec, op);
  op.dy = operands.uniform({spec.groups.all(), spec.n});
  op.dx = place == Place::kInX ? op.x : place == Place::kInDy ? op.dy : operands.output(op.x.shape);
  std::vector<Output> outputs = {near(rows_in_groups(op.dx, spec.groups), 32)};
  if (spec.probabilities) {
    op.dprobabilities = operands.output(operands.full(), {spec.groups.all()});
    outputs.push_back(near(rows_in_groups(op.dprobabilities, spec.groups), 64));
  }
  return make_job(op, grouped_activation_backward, outputs);
}

GradientJob gradients(Operands& operands, const Spec& spec) {
  GroupedActivationForward op;
  set_inputs(operands, spec, op);
  const std::int64_t rows = spec.groups.all();
  op.y = operands.filled(DType::kF64, {rows, spec.n}, 0.0);
  GroupedActivationBackward back;
  back.x = op.x;
  back.offsets = op.offsets;
  back.bias = op.bias;
  back.probabilities = op.probabilities;
  back.kind = op.kind;
  back.gated = op.gated;
  back.dy = operands.uniform({rows, spec.n});
  back.dx = operands.filled(DType::kF64, op.x.shape, 0.0);
  back.dprobabilities = operands.filled(DType::kF64, {rows}, 0.0);
  // The gradient of the bias: the sums over rows of dx.
  const GroupedBiasGradient bias{.dbias = operands.output(op.bias.shape),
                                 .dy = back.dx,
                                 .offsets = op.offsets,
                                 .factors = {},
                                 .accumulate = false};
  GradientJob job;
  job.forward = call_of(grouped_activation_forward, op);
  job.backward = [=](Context& context) {
    grouped_activation_backward(context, back);
    grouped_bias_gradient(context, bias);
  };
  job.outputs = {{op.y, back.dy}};
  job.operands = {{op.x, back.dx}, {op.probabilities, back.dprobabilities}, {op.bias, bias.dbias}};
  return job;
}

}  // namespace

void add_grouped_activation_cases(CaseTable& table) {
  const GroupSizes sizes{.rows = {3, 0, 8, 1}, .front = 1, .behind = 2};
  std::vector<Spec> specs = {{{.rows = {}, .behind = 2}, 8},
                             {{.rows = {0, 0}}, 8},
                             {{.rows = {0, 5, 0}}, 520},
                             {{.rows = {2, 1}}, 513, ActivationKind::kGeluTanh, false},
                             {{.rows = {2, 2}}, 0}};
  for (const bool gated : {true, false}) {
    for (const ActivationKind kind : kActivationKinds) specs.push_back({sizes, 17, kind, gated});
    specs.push_back({sizes, 64, ActivationKind::kSilu, gated, false, true});
    specs.push_back({sizes, 65, ActivationKind::kSilu, gated, true, false});
    specs.push_back({sizes, 9, ActivationKind::kSilu, gated, false, false});
  }
  for (const Spec& spec : specs) {
    const std::string name = spec_name(spec);
    table.test("grouped_activation_forward", name, kStorageTypes, forward, spec);
    table.test("grouped_activation_backward", name, kStorageTypes, backward, spec, Place::kApart);
    table.test("grouped_activation_backward", name + ", in place", kStorageTypes, backward, spec,
               spec.gated ? Place::kInX : Place::kInDy);
  }
  for (const bool gated : {true, false}) {
    const Spec spec{{.rows = {3, 0, 2}, .behind = 1}, 4, ActivationKind::kGeluErf, gated};
    table.differentiate("grouped_activation", spec_name(spec), gradients, spec);
  }
  const Spec timed{{.rows = {512, 256, 768, 512}}, 2048};
  table.time("grouped_activation_forward", spec_name(timed), kTimedTypes, forward, timed);
  table.time("grouped_activation_backward", spec_name(timed), kTimedTypes, backward, timed,
             Place::kInX);
}

}  // namespace phalanx::ops
