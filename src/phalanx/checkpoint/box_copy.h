#pragma once
// Assembles a global tensor from the boxes of many ranks, some of its rows at a time: each rank
// packs what it holds of these rows, a message carries it, and the receiver, who knows the sender's
// boxes, unpacks it. Pure functions of boxes and bytes; a tensor is seen as matrix_rows x
// matrix_columns.

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/mesh/global_tensor.h"
#include "phalanx/mesh/param_spec.h"

namespace phalanx {

// The bytes that these boxes hold of the global rows [row_begin, row_end).
std::int64_t packed_bytes(std::span<const ParamBox> boxes, DType dtype, std::int64_t row_begin,
                          std::int64_t row_end);

// Writes these packed_bytes(tensor.boxes, ...): box after box, each row by row.
void pack_rows(const GlobalTensor& tensor, std::int64_t row_begin, std::int64_t row_end,
               std::byte* out);

// Copies what pack_rows wrote for a tensor with these boxes into the global rows [row_begin,
// row_end), row-major; their other elements stay as they are. Nothing needs to be aligned.
void unpack_rows(std::span<const ParamBox> boxes, DType dtype, std::int64_t global_columns,
                 std::int64_t row_begin, std::int64_t row_end, std::span<const std::byte> packed,
                 std::byte* global_rows);

}  // namespace phalanx
