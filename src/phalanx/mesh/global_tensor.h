#pragma once
// How a global tensor lies in memory: the bridge between a rank's layout (padded rows, shards,
// fused QKV) and files, which know only whole tensors, row-major and without padding.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/mesh/box_range.h"
#include "phalanx/mesh/matrix_box.h"
#include "phalanx/tensor/host_pieces.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

// `local` is a matrix, or a range of one: the elements of a [rows, local_columns] matrix from
// local_begin on, as many as `local` has. So a shard of a parameter that was cut as a flat range
// keeps the coordinates of the parameter it was cut from: its boxes are those of the whole
// parameter, clipped to the range (boxes_of_range), and start and end amid rows.
struct GlobalTensor {
  std::string name;
  Shape global_shape;  // without padding
  Tensor local;        // contiguous; seen as matrix_rows x matrix_columns
  std::vector<ParamBox> boxes;
  // Of the matrix that `local` is a range of; 0: `local` is the matrix.
  std::int64_t local_columns = 0;
  std::int64_t local_begin = 0;
  // How the host reads and writes `local`; must outlive this.
  HostPieces* memory = &host_pieces();

  // How long rows of the local matrix are, and which element of `local` a row of a box starts at.
  std::int64_t row_length() const {
    return local_columns > 0 ? local_columns : matrix_columns(local.shape);
  }
  std::int64_t local_element(const ParamBox& box, std::int64_t row) const {
    return (box.local_row + row) * row_length() + box.local_column - local_begin;
  }
  // How many rows of a box follow each other in `local` without a gap.
  std::int64_t rows_at_once(const ParamBox& box) const {
    return box.columns == row_length() ? box.rows : 1;
  }
};

// A parameter, or with a prefix ("optimizer.exp_avg.") a state of it that is cut like it: `local`
// may have any shape with the count of spec.local_shape, and any dtype.
GlobalTensor global_tensor(const ParamSpec& spec, const Tensor& local,
                           std::string_view prefix = "");
// A shard of it: the elements [begin, begin + local.count()) of the local parameter.
GlobalTensor shard_tensor(const ParamSpec& spec, const Tensor& local, std::int64_t begin,
                          std::string_view prefix = "");
// A tensor that this rank has completely.
GlobalTensor whole_tensor(std::string name, const Tensor& local);

enum class Coverage { kPartial, kWhole };
// InternalError unless every box lies inside both tensors; for kWhole also unless the boxes are
// disjoint and cover the global tensor.
void check_boxes(const GlobalTensor& tensor, Coverage coverage);

// The bytes of the global tensor (row-major, little-endian), in pieces of at most 1 MiB, straight
// from the local tensor where it is in one piece of host memory. The boxes must cover the tensor.
void visit_global_bytes(const GlobalTensor& tensor,
                        const std::function<void(std::span<const std::byte>)>& visit);

// The boxes' elements that lie in `from`, a part of the global tensor of type `dtype` with these
// bytes, row-major. They are converted (to the nearest value) where the local type is another
// floating-point one. All other elements stay as they are.
void fill_from_box(const GlobalTensor& tensor, const MatrixBox& from, DType dtype,
                   std::span<const std::byte> bytes);
// Converts `count` floating-point elements to the nearest values of another floating-point type.
void convert_elements(DType from, const std::byte* source, DType to, std::byte* target,
                      std::int64_t count);

// One floating-point or integer element as double: NaN and infinities included, i64 rounded.
double element_as_double(DType dtype, const std::byte* element);

}  // namespace phalanx
