#include "phalanx/mesh/param_spec.h"

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

std::int64_t true_count(const ParamSpec& spec) {
  std::int64_t count = 0;
  for (const auto& box : spec.boxes) count += box.rows * box.columns;
  return count;
}

std::int64_t matrix_rows(const Shape& shape) { return shape.rank() >= 2 ? shape[0] : 1; }

std::int64_t matrix_columns(const Shape& shape) {
  return shape.count() == 0 ? 0 : shape.count() / matrix_rows(shape);
}

ParamSpec whole_parameter(std::string name, Shape global_shape, DType dtype,
                          Initialiser initialiser, std::int64_t padded_rows) {
  ParamSpec spec{.name = std::move(name),
                 .global_shape = global_shape,
                 .local_shape = global_shape,
                 .dtype = dtype,
                 .boxes = {},
                 .initialiser = initialiser};
  if (padded_rows > 0) {
    PHALANX_CHECK(global_shape.rank() == 2 && padded_rows >= global_shape[0],
                  "{}: {} padded to {} rows", spec.name, global_shape.to_string(), padded_rows);
    spec.local_shape[0] = padded_rows;
  }
  spec.boxes.push_back(
      {.rows = matrix_rows(global_shape), .columns = matrix_columns(global_shape)});
  // Biases and norms are vectors; they do not decay.
  spec.decays = global_shape.rank() >= 2;
  return spec;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t divisor,
                               std::int64_t tensor_parallel_size) {
  return round_up(vocabulary, divisor * tensor_parallel_size);
}

}  // namespace phalanx
