#include "phalanx/ops/random.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct Box {
  std::int64_t rows, columns, global_columns;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t stride = 0;  // of the rows; 0: dense
};

std::string random_name(const Box& box) {
  return fmt::format("{}x{} at ({}, {}) of {} columns{}", box.rows, box.columns, box.first_row,
                     box.first_column, box.global_columns, box.stride > 0 ? ", strided" : "");
}

template <typename Op>
Op drawn(Operands& operands, const Box& box) {
  Op op;
  op.x = box.stride > 0 ? operands.output({box.rows, box.stride}).slice(1, 1, box.columns)
                        : operands.output({box.rows, box.columns});
  op.key = random_key(1234, RandomPurpose::kInitialisation);
  op.parameter = parameter_coordinate("decoder.layers.0.mlp.linear_fc1.weight");
  op.global_columns = box.global_columns;
  op.first_row = box.first_row;
  op.first_column = box.first_column;
  return op;
}

Job normal_numbers(Operands& operands, const Box& box) {
  auto op = drawn<Normal>(operands, box);
  op.deviation = 0.02;
  return make_job(op, normal, {near(op.x, 2)});
}

Job uniform_numbers(Operands& operands, const Box& box) {
  auto op = drawn<Uniform>(operands, box);
  op.bound = 0.25;
  return make_job(op, uniform, {{op.x, 0.0}});
}

}  // namespace

void add_random_cases(CaseTable& table) {
  for (const Box& box : {Box{1, 1, 1}, Box{3, 17, 17}, Box{65, 257, 257}, Box{5, 7, 23, 11, 9},
                         Box{17, 6, 9, 0, 3, 8}, Box{3, 50, 100000, 70000, 33333}}) {
    table.test("normal", random_name(box), kStorageTypes, normal_numbers, box);
    table.test("uniform", random_name(box), kStorageTypes, uniform_numbers, box);
  }
  const Box large{3072, 768, 768};
  table.time("normal", random_name(large), kTimedTypes, normal_numbers, large);
}

}  // namespace phalanx::ops
