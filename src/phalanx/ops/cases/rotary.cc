#include "phalanx/ops/rotary.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

// Where the heads that are rotated lie.
enum class Layout {
  kDense,    // [s, b, heads, d], to another tensor
  kInPlace,  // the same tensor
  kGrouped,  // [s, b, groups, heads / groups, d] of a fused tensor with two more heads a group
};

struct Spec {
  std::int64_t s, b, heads, d;
  Rotary rotary;
  Layout layout = Layout::kDense;
  bool inverse = false;
  std::int64_t groups = 1;
};

constexpr std::int64_t kPositions = 300;

std::string rotate_name(const Spec& spec) {
  constexpr const char* kLayouts[] = {"", ", in place", ", grouped"};
  return fmt::format("{}x{}, heads {}, {} of {}{}{}{}", spec.s, spec.b, spec.heads,
                     spec.rotary.dimensions, spec.d, spec.rotary.interleaved ? ", interleaved" : "",
                     kLayouts[static_cast<std::size_t>(spec.layout)],
                     spec.inverse ? ", inverse" : "");
}

Rotate rotate_op(Operands& operands, const Spec& spec) {
  const Shape shape{spec.s, spec.b, spec.heads, spec.d};
  Rotate op;
  op.table = operands.output(operands.full(), {kPositions, spec.rotary.dimensions});
  rotary_table(operands.preparation(), {.table = op.table, .rotary = spec.rotary});
  op.position = operands.integers({spec.s, spec.b}, 0, kPositions);
  op.interleaved = spec.rotary.interleaved;
  op.inverse = spec.inverse;
  if (spec.layout == Layout::kGrouped) {
    const std::int64_t of_group = spec.heads / spec.groups;
    op.x =
        operands.uniform({spec.s, spec.b, spec.groups, of_group + 2, spec.d}).slice(3, 0, of_group);
    op.y = op.x;
  } else {
    op.x = operands.uniform(shape);
    op.y = spec.layout == Layout::kInPlace ? op.x : operands.output(shape);
  }
  return op;
}

Job rotate_job(Operands& operands, const Spec& spec) {
  const Rotate op = rotate_op(operands, spec);
  return make_job(op, rotate, {near(op.y, 4)});
}

GradientJob rotate_gradients(Operands& operands, const Spec& spec) {
  const Rotate op = rotate_op(operands, spec);
  Rotate back = op;
  back.x = operands.uniform(op.y.shape);
  back.y = operands.output(op.x.shape);
  back.inverse = !op.inverse;
  return {call_of(rotate, op), call_of(rotate, back), {{op.y, back.x}}, {{op.x, back.y}}};
}

Job table_job(Operands& operands, std::int64_t positions, const Rotary& rotary) {
  const RotaryTable op{.table = operands.output(operands.full(), {positions, rotary.dimensions}),
                       .rotary = rotary};
  return make_job(op, rotary_table, {near(op.table, 1)});
}

constexpr Rotary kYarn{.dimensions = 64,
                       .scaling = Rotary::Scaling::kYarn,
                       .factor = 4.0,
                       .original_positions = 2048.0,
                       .attention_factor = 1.138629436};

}  // namespace

void add_rotary_cases(CaseTable& table) {
  const Spec tested[] = {
      {1, 1, 1, 2, {.dimensions = 2}},
      {5, 2, 3, 8, {.dimensions = 8}},
      {17, 2, 4, 64, {.dimensions = 64}, Layout::kInPlace},
      {9, 3, 2, 80, {.dimensions = 20}},
      {9, 3, 2, 33, {.dimensions = 32}, Layout::kInPlace, true},
      {33, 2, 6, 64, kYarn, Layout::kGrouped, false, 2},
      {33, 2, 6, 48, {.dimensions = 34}, Layout::kGrouped, true, 3},
      {5, 2, 3, 8, {.dimensions = 8, .interleaved = true}},
      {17, 2, 4, 160, {.dimensions = 160, .interleaved = true}, Layout::kInPlace, true},
      {9, 3, 6, 24, {.dimensions = 6, .interleaved = true}, Layout::kGrouped, false, 2},
  };
  for (const Spec& spec : tested) {
    table.test("rotate", rotate_name(spec), kStorageTypes, rotate_job, spec);
  }
  const Rotary llama3{
      .dimensions = 128, .base = 500000.0, .scaling = Rotary::Scaling::kLlama3, .factor = 8.0};
  for (const Rotary& rotary :
       {Rotary{.dimensions = 2}, Rotary{.dimensions = 34, .interpolation = 3.0}, llama3, kYarn}) {
    table.test("rotary_table", fmt::format("257x{}", rotary.dimensions), kFullPrecision, table_job,
               257, rotary);
  }
  for (const Spec& spec :
       {Spec{3, 2, 2, 6, {.dimensions = 4}}, Spec{2, 2, 2, 4, kYarn}, Spec{3, 1, 2, 4, kYarn},
        Spec{3, 2, 2, 5, {.dimensions = 4, .interleaved = true}, Layout::kDense, true}}) {
    Spec differentiated = spec;
    differentiated.rotary.dimensions = std::min<std::int64_t>(spec.rotary.dimensions, 4);
    table.differentiate("rotate", rotate_name(differentiated), rotate_gradients, differentiated);
  }
  // Queries and keys of a fused tensor, as they lie behind linear_qkv.
  const Spec timed[] = {
      {256, 4, 12, 64, {.dimensions = 64}, Layout::kGrouped, false, 12},
      {1024, 1, 32, 128, {.dimensions = 128}, Layout::kGrouped, false, 8},
      {1024, 1, 32, 128, {.dimensions = 128, .interleaved = true}, Layout::kGrouped, false, 8},
  };
  for (const Spec& spec : timed) {
    table.time("rotate", rotate_name(spec), kTimedTypes, rotate_job, spec);
  }
}

}  // namespace phalanx::ops
