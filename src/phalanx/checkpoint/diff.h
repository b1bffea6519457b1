#pragma once
// `phalanx checkpoint diff`: where two checkpoints differ, tensor by tensor.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

struct TensorDifference {
  std::string name;
  // If dtype or shape differ, the values are not compared.
  DType dtype_a = DType::kF32, dtype_b = DType::kF32;
  Shape shape_a, shape_b;
  bool comparable = true;
  std::vector<std::int64_t> first_index;  // index of the first element whose bits differ
  double value_a = 0;
  double value_b = 0;
  std::int64_t count = 0;              // elements whose bits differ
  double max_absolute_difference = 0;  // without pairs that have a NaN
};

struct CheckpointDifference {
  std::int64_t iteration_a = 0, iteration_b = 0;
  std::vector<std::string> only_in_a, only_in_b;
  std::vector<TensorDifference> tensors;  // tensors that differ, in a's order
  bool tensors_equal() const { return only_in_a.empty() && only_in_b.empty() && tensors.empty(); }
};

CheckpointDifference diff_checkpoints(const CheckpointReader& a, const CheckpointReader& b);

// {"equal": bool, "iterations": [a, b], "only_in_first": [names], "only_in_second": [names],
// "differing": [{"name", "dtypes", "shapes", and where both agree "first_index", "values", "count",
// "max_absolute_difference"}]} and a newline. "equal" is about the tensors. A value that is not
// finite is null.
std::string to_json(const CheckpointDifference& difference);
std::string to_text(const CheckpointDifference& difference);

}  // namespace phalanx
