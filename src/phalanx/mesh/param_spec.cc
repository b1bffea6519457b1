#include "phalanx/mesh/param_spec.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// The extent of each of `size` equal parts.
std::int64_t part_of(const std::string& name, std::int64_t extent, int rank, int size) {
  PHALANX_CHECK(size >= 1 && rank >= 0 && rank < size, "{}: part {} of {}", name, rank, size);
  PHALANX_CHECK(extent % size == 0, "{}: {} cannot be cut into {} equal parts", name, extent, size);
  return extent / size;
}

// Everything but the cut itself.
ParamSpec uncut(std::string name, Shape global_shape, DType dtype, Initialiser initialiser,
                int size) {
  return {.name = std::move(name),
          .global_shape = global_shape,
          .local_shape = global_shape,
          .dtype = dtype,
          .boxes = {},
          .initialiser = initialiser,
          // Biases and norms are vectors; they do not decay.
          .decays = global_shape.rank() >= 2,
          .cut_over = size > 1 ? AxisSet{Axis::kTensor} : AxisSet{}};
}

}  // namespace

std::int64_t true_count(const ParamSpec& spec) {
  std::int64_t count = 0;
  for (const auto& box : spec.boxes) count += box.rows * box.columns;
  return count;
}

int most_holders(const ParamSpec& spec) {
  int holders = 1;
  for (const ParamBox& box : spec.boxes) holders = std::max(holders, box.holders);
  return holders;
}

std::int64_t common_count(const ParamSpec& spec) {
  const std::int64_t elements = spec.local_shape.count();
  std::int64_t count = 0;
  std::int64_t first = elements;
  for (const ParamBox& box : spec.boxes) {
    if (box.holders == 1) continue;
    count += box.rows * box.columns;
    first = std::min(first, box.local_row * matrix_columns(spec.local_shape) + box.local_column);
  }
  PHALANX_CHECK(first + count == elements,
                "{}: {} elements from {} on of {} are other ranks' too, not the last ones",
                spec.name, count, first, elements);
  return count;
}

std::int64_t counted_count(const ParamSpec& spec) {
  const bool is_first =
      std::ranges::all_of(spec.boxes, [](const ParamBox& box) { return box.holder == 0; });
  return spec.local_shape.count() - (is_first ? 0 : common_count(spec));
}

std::int64_t matrix_rows(const Shape& shape) { return shape.rank() >= 2 ? shape[0] : 1; }

std::int64_t matrix_columns(const Shape& shape) {
  return shape.count() == 0 ? 0 : shape.count() / matrix_rows(shape);
}

ParamSpec whole_parameter(std::string name, Shape global_shape, DType dtype,
                          Initialiser initialiser, std::int64_t padded_rows) {
  return row_cut_parameter(std::move(name), global_shape, dtype, initialiser, 0, 1, padded_rows);
}

ParamSpec row_cut_parameter(std::string name, Shape global_shape, DType dtype,
                            Initialiser initialiser, int rank, int size, std::int64_t padded_rows) {
  PHALANX_CHECK(global_shape.rank() >= 1, "{}: rows of a scalar", name);
  const std::int64_t existing = global_shape[0];
  PHALANX_CHECK(padded_rows == 0 || padded_rows >= existing, "{}: {} padded to {} rows", name,
                global_shape.to_string(), padded_rows);
  const std::int64_t part = part_of(name, std::max(existing, padded_rows), rank, size);
  ParamSpec spec = uncut(std::move(name), global_shape, dtype, initialiser, size);
  spec.local_shape[0] = part;

  const std::int64_t first = part * rank;
  const std::int64_t count = std::clamp<std::int64_t>(existing - first, 0, part);
  if (count == 0) return spec;
  if (global_shape.rank() >= 2) {
    spec.boxes = {{.global_row = first, .rows = count, .columns = matrix_columns(global_shape)}};
  } else {
    spec.boxes = {{.global_column = first, .rows = 1, .columns = count}};
  }
  return spec;
}

ParamSpec column_cut_parameter(std::string name, Shape global_shape, DType dtype,
                               Initialiser initialiser, int rank, int size) {
  PHALANX_CHECK(global_shape.rank() == 2, "{}: columns of {}", name, global_shape.to_string());
  const std::int64_t part = part_of(name, global_shape[1], rank, size);
  ParamSpec spec = uncut(std::move(name), global_shape, dtype, initialiser, size);
  spec.local_shape[1] = part;
  spec.boxes = {{.global_column = part * rank, .rows = global_shape[0], .columns = part}};
  return spec;
}

ParamSpec row_ranges_parameter(std::string name, Shape global_shape, DType dtype,
                               Initialiser initialiser, const std::vector<RowRange>& ranges,
                               int size) {
  PHALANX_CHECK(global_shape.rank() >= 1, "{}: rows of a scalar", name);
  const bool is_vector = global_shape.rank() == 1;
  const std::int64_t columns = matrix_columns(global_shape);
  ParamSpec spec = uncut(std::move(name), global_shape, dtype, initialiser, size);
  std::int64_t held = 0;
  std::int64_t end = -1;  // of the last range, in the global tensor
  for (const RowRange& range : ranges) {
    PHALANX_CHECK(
        range.first >= 0 && range.count > 0 && range.first + range.count <= global_shape[0],
        "{}: rows [{}, {}) of {}", spec.name, range.first, range.first + range.count,
        global_shape.to_string());
    const bool has_same_holders = !spec.boxes.empty() &&
                                  spec.boxes.back().holders == range.holders &&
                                  spec.boxes.back().holder == range.holder;
    if (range.first == end && has_same_holders) {
      (is_vector ? spec.boxes.back().columns : spec.boxes.back().rows) += range.count;
    } else {
      ParamBox box{.holders = range.holders, .holder = range.holder};
      (is_vector ? box.global_column : box.global_row) = range.first;
      (is_vector ? box.local_column : box.local_row) = held;
      box.rows = is_vector ? 1 : range.count;
      box.columns = is_vector ? range.count : columns;
      spec.boxes.push_back(box);
    }
    end = range.first + range.count;
    held += range.count;
  }
  spec.local_shape[0] = held;
  return spec;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t divisor,
                               std::int64_t tensor_parallel_size) {
  return round_up(vocabulary, divisor * tensor_parallel_size);
}

}  // namespace phalanx
