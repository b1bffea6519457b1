#include "phalanx/mesh/global_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"

namespace phalanx {
namespace {

constexpr std::int64_t kLargestPiece = std::int64_t{1} << 20;
// Shorter runs are gathered in a buffer of this size, so that a strided shard costs few writes.
constexpr std::int64_t kScratchBytes = 32768;

// Elements of the local tensor that follow each other in the global one too.
struct Run {
  std::int64_t global_begin = 0;
  std::int64_t local_begin = 0;
  std::int64_t length = 0;
};

class Layout {
 public:
  explicit Layout(const GlobalTensor& tensor)
      : tensor_(tensor),
        global_columns_(matrix_columns(tensor.global_shape)),
        local_columns_(tensor.row_length()) {}

  // A box that is as wide as both tensors is one run, another one has a run for each row.
  std::int64_t rows_per_run(const ParamBox& box) const {
    return box.columns == global_columns_ && box.columns == local_columns_ ? box.rows : 1;
  }
  Run run_at_row(const ParamBox& box, std::int64_t row) const {
    return {.global_begin = (box.global_row + row) * global_columns_ + box.global_column,
            .local_begin = tensor_.local_element(box, row),
            .length = rows_per_run(box) * box.columns};
  }

  // The run from global element `position` on; length 0 where no box has it.
  Run rest_of_run(std::int64_t position) const {
    const std::int64_t row = position / global_columns_;
    const std::int64_t column = position % global_columns_;
    for (const auto& box : tensor_.boxes) {
      if (row < box.global_row || row >= box.global_row + box.rows || column < box.global_column ||
          column >= box.global_column + box.columns) {
        continue;
      }
      Run run = run_at_row(box, rows_per_run(box) == 1 ? row - box.global_row : 0);
      const std::int64_t skipped = position - run.global_begin;
      return {position, run.local_begin + skipped, run.length - skipped};
    }
    return {};
  }

 private:
  const GlobalTensor& tensor_;
  std::int64_t global_columns_;
  std::int64_t local_columns_;
};

bool inside(std::int64_t begin, std::int64_t extent, std::int64_t limit) {
  return begin >= 0 && extent >= 0 && begin <= limit && extent <= limit - begin;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void store_as(DType dtype, double value, std::byte* to) {
  const auto put = [to](auto stored) { std::memcpy(to, &stored, sizeof(stored)); };
  switch (dtype) {
    case DType::kF64:
      return put(value);
    case DType::kF32:
      return put(static_cast<float>(value));
    case DType::kBF16:
      return put(to_bfloat16(static_cast<float>(value)));
    case DType::kF16:
      return put(to_float16(static_cast<float>(value)));
    default:
      PHALANX_CHECK(false, "no conversion to {}", name_of(dtype));
  }
}

}  // namespace

GlobalTensor global_tensor(const ParamSpec& spec, const Tensor& local, std::string_view prefix) {
  PHALANX_CHECK(local.count() == spec.local_shape.count(), "{}: {} elements for a local {}",
                spec.name, local.count(), spec.local_shape.to_string());
  return {.name = std::string(prefix) + spec.name,
          .global_shape = spec.global_shape,
          .local = local.reshape(spec.local_shape),
          .boxes = spec.boxes};
}

GlobalTensor shard_tensor(const ParamSpec& spec, const Tensor& local, std::int64_t begin,
                          std::string_view prefix) {
  return {.name = std::string(prefix) + spec.name,
          .global_shape = spec.global_shape,
          .local = local,
          .boxes = boxes_of_range(spec, begin, local.count()),
          .local_columns = matrix_columns(spec.local_shape),
          .local_begin = begin};
}

GlobalTensor whole_tensor(std::string name, const Tensor& local) {
  return {.name = std::move(name),
          .global_shape = local.shape,
          .local = local,
          .boxes = {{.rows = matrix_rows(local.shape), .columns = matrix_columns(local.shape)}}};
}

void check_boxes(const GlobalTensor& tensor, Coverage coverage) {
  PHALANX_CHECK(tensor.local.space != MemorySpace::kNone && tensor.local.contiguous(),
                "{}: not a contiguous tensor in memory", tensor.name);
  const Shape& global = tensor.global_shape;
  const Shape& local = tensor.local.shape;
  const std::int64_t columns = tensor.row_length();
  PHALANX_CHECK(tensor.local_begin >= 0 && (tensor.local_columns > 0 || tensor.local_begin == 0),
                "{}: begins at element {} of rows of {}", tensor.name, tensor.local_begin,
                tensor.local_columns);
  // Of the local matrix, up to where `local` ends.
  const std::int64_t rows =
      tensor.local_columns > 0 ? (tensor.local_begin + tensor.local.count() + columns - 1) / columns
                               : matrix_rows(local);
  std::int64_t covered = 0;
  for (const auto& box : tensor.boxes) {
    PHALANX_CHECK(inside(box.global_row, box.rows, matrix_rows(global)) &&
                      inside(box.global_column, box.columns, matrix_columns(global)) &&
                      inside(box.local_row, box.rows, rows) &&
                      inside(box.local_column, box.columns, columns),
                  "{}: a box leaves the global {} or the local {}", tensor.name, global.to_string(),
                  local.to_string());
    PHALANX_CHECK(
        box.rows == 0 || box.columns == 0 ||
            (tensor.local_element(box, 0) >= 0 &&
             tensor.local_element(box, box.rows - 1) + box.columns <= tensor.local.count()),
        "{}: a box leaves elements {} to {} of the local parameter", tensor.name,
        tensor.local_begin, tensor.local_begin + tensor.local.count());
    covered += box.rows * box.columns;
  }
  if (coverage == Coverage::kPartial) return;
  PHALANX_CHECK(covered == global.count(), "{}: the boxes have {} elements of {}", tensor.name,
                covered, global.count());
  for (auto a = tensor.boxes.begin(); a != tensor.boxes.end(); ++a) {
    PHALANX_CHECK(std::none_of(std::next(a), tensor.boxes.end(),
                               [&](const ParamBox& b) {
                                 return overlap(global_box(*a), global_box(b)).count() > 0;
                               }),
                  "{}: two boxes overlap", tensor.name);
  }
}

void visit_global_bytes(const GlobalTensor& tensor,
                        const std::function<void(std::span<const std::byte>)>& visit) {
  const Layout layout(tensor);
  const std::int64_t size = size_of(tensor.local.dtype);
  std::array<std::byte, kScratchBytes> scratch;
  std::int64_t filled = 0;  // bytes in the scratch
  const auto flush = [&] {
    if (filled > 0) visit(std::span(scratch.data(), static_cast<std::size_t>(filled)));
    filled = 0;
  };
  std::int64_t position = 0;
  while (position < tensor.global_shape.count()) {
    const Run run = layout.rest_of_run(position);
    PHALANX_CHECK(run.length > 0, "{}: no box has element {}", tensor.name, position);
    std::int64_t bytes = std::min(run.length * size, kLargestPiece);
    if (bytes >= kScratchBytes) {
      // Down to whole elements: pieces are.
      bytes = run.length * size;
      flush();
      tensor.memory->visit(elements_of(tensor.local, run.local_begin, run.length), kLargestPiece,
                           visit);
    } else {
      bytes = std::min(bytes, kScratchBytes - filled);
      tensor.memory->read(elements_of(tensor.local, run.local_begin, bytes / size),
                          std::span(scratch).subspan(static_cast<std::size_t>(filled),
                                                     static_cast<std::size_t>(bytes)));
      filled += bytes;
      if (filled == kScratchBytes) flush();
    }
    position += bytes / size;
  }
  flush();
}

void convert_elements(DType from, const std::byte* source, DType to, std::byte* target,
                      std::int64_t count) {
  // All weights of a run in bf16 are rounded so when a checkpoint is loaded.
  if (from == DType::kF32 && to == DType::kBF16) {
    for (std::int64_t i = 0; i < count; ++i) {
      const bfloat16 rounded = to_bfloat16(load<float>(source + i * size_of(from)));
      std::memcpy(target + i * size_of(to), &rounded, sizeof(rounded));
    }
    return;
  }
  const std::int64_t read = size_of(from);
  const std::int64_t written = size_of(to);
  for (std::int64_t i = 0; i < count; ++i) {
    store_as(to, element_as_double(from, source + i * read), target + i * written);
  }
}

void fill_from_box(const GlobalTensor& tensor, const MatrixBox& from, DType dtype,
                   std::span<const std::byte> bytes) {
  const std::int64_t size = size_of(dtype);
  const DType local_dtype = tensor.local.dtype;
  const std::int64_t local_size = size_of(local_dtype);
  PHALANX_CHECK(dtype == local_dtype || (is_floating(dtype) && is_floating(local_dtype)),
                "{}: {} cannot become {}", tensor.name, name_of(dtype), name_of(local_dtype));
  PHALANX_CHECK(std::ssize(bytes) == from.count() * size, "{}: {} bytes for {} {} elements",
                tensor.name, bytes.size(), from.count(), name_of(dtype));
  for (const auto& box : tensor.boxes) {
    const MatrixBox part = overlap(global_box(box), from);
    // Rows that are as wide as the local ones are one run there, and where they are as wide as
    // `from`, also one of the bytes.
    const bool is_one_run = part.columns == tensor.row_length();
    const bool is_dense = is_one_run && part.columns == from.columns;
    const std::int64_t rows_per_run = is_one_run ? part.rows : 1;
    const std::int64_t rows_of_bytes = is_dense ? part.rows : 1;
    const std::int64_t length = rows_of_bytes * part.columns;
    for (std::int64_t row = 0; row < part.rows && length > 0; row += rows_per_run) {
      const Tensor run = elements_of(tensor.local,
                                     tensor.local_element(box, part.row + row - box.global_row) +
                                         part.column - box.global_column,
                                     rows_per_run * part.columns);
      const std::byte* source =
          bytes.data() +
          ((part.row + row - from.row) * from.columns + part.column - from.column) * size;
      if (dtype == local_dtype && is_dense == is_one_run) {
        tensor.memory->write(run, {source, static_cast<std::size_t>(length * size)});
        continue;
      }
      // From elements of `bytes` to those of the run, whose pieces may end amid rows.
      std::int64_t column = 0;  // of `length`
      tensor.memory->fill(run, [&](std::span<std::byte> piece) {
        std::byte* target = piece.data();
        std::int64_t left = std::ssize(piece) / local_size;
        while (left > 0) {
          const std::int64_t now = std::min(left, length - column);
          if (dtype == local_dtype) {
            std::memcpy(target, source + column * size, static_cast<std::size_t>(now * size));
          } else {
            convert_elements(dtype, source + column * size, local_dtype, target, now);
          }
          target += now * local_size;
          left -= now;
          column += now;
          if (column < length) continue;
          column = 0;
          source += from.columns * size;
        }
      });
    }
  }
  note_progress();
}

double element_as_double(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kF64:
      return load<double>(element);
    case DType::kF32:
      return static_cast<double>(load<float>(element));
    case DType::kBF16:
      return static_cast<double>(to_float(load<bfloat16>(element)));
    case DType::kF16:
      return static_cast<double>(to_float(load<float16>(element)));
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(element));
    case DType::kI32:
      return load<std::int32_t>(element);
    case DType::kU8:
      return load<std::uint8_t>(element);
  }
  return 0;
}

}  // namespace phalanx
