#include "phalanx/ops/grouped_linear.h"

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cases/groups.h"

namespace phalanx::ops {
namespace {

struct GroupedSize {
  GroupSizes groups;
  std::int64_t n, k;
  bool reversed = false;  // what groups have lies in reverse order

  Tensor placed(const Tensor& stacked) const { return reversed ? ops::reversed(stacked) : stacked; }
};

std::string grouped_name(const GroupedSize& size) {
  return fmt::format("{} x{}x{}{}", name_of(size.groups), size.n, size.k,
                     size.reversed ? ", reversed" : "");
}

double sum_units(std::int64_t terms) { return 8.0 + std::sqrt(static_cast<double>(terms)); }

std::int64_t most_rows(const GroupSizes& sizes) {
  return sizes.rows.empty() ? 0 : *std::ranges::max_element(sizes.rows);
}

enum class Bias { kNone, kPlain, kFactors };

Job forward(Operands& operands, const GroupedSize& size, Bias bias) {
  const GroupSizes& groups = size.groups;
  GroupedLinearForward op;
  op.y = operands.output({groups.all(), size.n});
  op.x = operands.uniform({groups.all(), size.k});
  op.weight = size.placed(operands.uniform({groups.groups(), size.n, size.k}));
  op.offsets = offsets_of(operands, groups);
  if (bias != Bias::kNone) op.bias = size.placed(operands.uniform({groups.groups(), size.n}));
  if (bias == Bias::kFactors) op.bias_factors = operands.uniform(operands.full(), {groups.all()});
  return make_job(op, grouped_linear_forward,
                  {near(rows_in_groups(op.y, groups), sum_units(size.k))});
}

Job input_gradient(Operands& operands, const GroupedSize& size) {
  const GroupSizes& groups = size.groups;
  GroupedLinearInputGradient op;
  op.dx = operands.output({groups.all(), size.k});
  op.dy = operands.uniform({groups.all(), size.n});
  op.weight = size.placed(operands.uniform({groups.groups(), size.n, size.k}));
  op.offsets = offsets_of(operands, groups);
  return make_job(op, grouped_linear_input_gradient,
                  {near(rows_in_groups(op.dx, groups), sum_units(size.n))});
}

// Sums that are added to, or that are written over garbage.
Tensor sums(Operands& operands, const Shape& shape, bool accumulate) {
  return accumulate ? operands.uniform(operands.full(), shape)
                    : operands.output(operands.full(), shape);
}

// Matrices of neighbours may be apart.
Job weight_gradient(Operands& operands, const GroupedSize& size, bool accumulate, bool apart) {
  const GroupSizes& groups = size.groups;
  GroupedLinearWeightGradient op;
  op.accumulate = accumulate;
  const Shape shape{groups.groups(), size.n + (apart ? 2 : 0), size.k};
  op.dweight = size.placed(sums(operands, shape, accumulate)).slice(1, 0, size.n);
  op.dy = operands.uniform({groups.all(), size.n});
  op.x = operands.uniform({groups.all(), size.k});
  op.offsets = offsets_of(operands, groups);
  return make_job(op, grouped_linear_weight_gradient,
                  {near(op.dweight, sum_units(most_rows(groups)))});
}

Job bias_sums(Operands& operands, const GroupedSize& size, bool accumulate, bool factors) {
  const GroupSizes& groups = size.groups;
  GroupedBiasGradient op;
  op.accumulate = accumulate;
  op.dbias = size.placed(sums(operands, {groups.groups(), size.n}, accumulate));
  op.dy = operands.uniform({groups.all(), size.n});
  op.offsets = offsets_of(operands, groups);
  if (factors) op.factors = operands.uniform(operands.full(), {groups.all()});
  return make_job(op, grouped_bias_gradient, {near(op.dbias, sum_units(most_rows(groups)))});
}

Job bias_dots(Operands& operands, const GroupedSize& size) {
  const GroupSizes& groups = size.groups;
  GroupedBiasDots op;
  op.dots = operands.uniform(operands.full(), {groups.all()});
  op.dy = operands.uniform({groups.all(), size.n});
  op.bias = size.placed(operands.uniform({groups.groups(), size.n}));
  op.offsets = offsets_of(operands, groups);
  return make_job(op, grouped_bias_dots,
                  {near(rows_in_groups(op.dots, groups), sum_units(size.n))});
}

GradientJob all_gradients(Operands& operands, const GroupedSize& size) {
  const GroupSizes& groups = size.groups;
  const std::int64_t rows = groups.all();
  const Shape weights{groups.groups(), size.n, size.k};
  const GroupedLinearForward op{.y = operands.filled(DType::kF64, {rows, size.n}, 0.0),
                                .x = operands.uniform({rows, size.k}),
                                .weight = operands.uniform(weights),
                                .offsets = offsets_of(operands, groups),
                                .bias = operands.uniform({groups.groups(), size.n}),
                                .bias_factors = operands.uniform(DType::kF64, {rows})};
  const Tensor dy = operands.uniform({rows, size.n});
  const GroupedLinearInputGradient input{.dx = operands.filled(DType::kF64, {rows, size.k}, 0.0),
                                         .dy = dy,
                                         .weight = op.weight,
                                         .offsets = op.offsets};
  const GroupedLinearWeightGradient weight{.dweight = operands.output(weights),
                                           .dy = dy,
                                           .x = op.x,
                                           .offsets = op.offsets,
                                           .accumulate = false};
  const GroupedBiasGradient bias{.dbias = operands.output({groups.groups(), size.n}),
                                 .dy = dy,
                                 .offsets = op.offsets,
                                 .factors = op.bias_factors,
                                 .accumulate = false};
  const GroupedBiasDots dots{.dots = operands.filled(DType::kF64, {rows}, 0.0),
                             .dy = dy,
                             .bias = op.bias,
                             .offsets = op.offsets};
  GradientJob job;
  job.forward = call_of(grouped_linear_forward, op);
  job.backward = [=](Context& context) {
    grouped_linear_input_gradient(context, input);
    grouped_linear_weight_gradient(context, weight);
    grouped_bias_gradient(context, bias);
    grouped_bias_dots(context, dots);
  };
  job.outputs = {{op.y, dy}};
  job.operands = {{op.x, input.dx},
                  {op.weight, weight.dweight},
                  {op.bias, bias.dbias},
                  {op.bias_factors, dots.dots}};
  return job;
}

template <typename... Build>
void add_product(std::vector<Case>& cases, std::span<const DType> types, const std::string& op,
                 const std::string& description, Build... build) {
  cases.push_back(case_of(op, description, types, build...));
  cases.back().product = true;
}

}  // namespace

void add_grouped_linear_cases(CaseTable& table) {
  // Some, none, one with all rows, none at all, no group; one width is 0.
  const GroupedSize sizes[] = {{{.rows = {5, 0, 33, 1, 70}, .behind = 3}, 17, 65},
                               {{.rows = {0, 0, 67}}, 65, 20},
                               {{.rows = {3, 4}, .front = 2, .behind = 1}, 1, 9},
                               {{.rows = {4, 0, 66}, .behind = 1}, 24, 40, true},
                               {{.rows = {5, 0, 130, 1, 70}, .front = 2, .behind = 3}, 136, 72},
                               {{.rows = {0, 260}, .behind = 2}, 40, 168, true},
                               {{.rows = {0, 0}, .behind = 4}, 5, 7},
                               {{.rows = {0, 0}}, 5, 7},
                               {{.rows = {}, .behind = 2}, 5, 7},
                               {{.rows = {2, 3}}, 6, 0},
                               {{.rows = {2, 3}}, 0, 6}};
  for (const GroupedSize& size : sizes) {
    const std::string name = grouped_name(size);
    const auto add = [&](auto... row) { add_product(table.tests, kStorageTypes, row...); };
    add("grouped_linear_forward", name, forward, size, Bias::kNone);
    add("grouped_linear_forward", name + ", bias", forward, size, Bias::kPlain);
    add("grouped_linear_forward", name + ", factors", forward, size, Bias::kFactors);
    add("grouped_linear_input_gradient", name, input_gradient, size);
    for (const bool accumulate : {false, true}) {
      const std::string full = name + (accumulate ? ", accumulate" : "");
      add("grouped_linear_weight_gradient", full, weight_gradient, size, accumulate, accumulate);
      table.test("grouped_bias_gradient", full, kStorageTypes, bias_sums, size, accumulate, false);
      table.test("grouped_bias_gradient", full + ", factors", kStorageTypes, bias_sums, size,
                 accumulate, true);
    }
    table.test("grouped_bias_dots", name, kStorageTypes, bias_dots, size);
  }
  table.differentiate("grouped_linear", "3+0+2", all_gradients,
                      GroupedSize{{.rows = {3, 0, 2}, .behind = 1}, 4, 3});

  // 8 experts, 2 of them for each of 1,024 tokens, and all 2,048 rows with one of them.
  const GroupSizes even{.rows = {256, 240, 260, 270, 230, 256, 280, 256}};
  const GroupSizes one{.rows = {0, 0, 2048, 0, 0, 0, 0, 0}};
  // 64 experts, 8 of them for each of 512 tokens.
  GroupSizes many;
  for (std::int64_t e = 0; e < 64; ++e) many.rows.push_back(64 + (e % 2 == 0 ? 16 : -16));
  for (const GroupedSize& size :
       {GroupedSize{even, 3072, 768}, GroupedSize{one, 3072, 768}, GroupedSize{many, 768, 1024}}) {
    const std::string name =
        fmt::format("{} rows of {} x{}x{}{}", size.groups.all(), size.groups.groups(), size.n,
                    size.k, size.groups.rows[0] == 0 ? ", of one" : "");
    const auto add = [&](auto... row) { add_product(table.performance, kTimedTypes, row...); };
    add("grouped_linear_forward", name, forward, size, Bias::kNone);
    add("grouped_linear_input_gradient", name, input_gradient, size);
    add("grouped_linear_weight_gradient", name, weight_gradient, size, true, false);
  }
}

}  // namespace phalanx::ops
