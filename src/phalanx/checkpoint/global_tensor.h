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

#include "phalanx/mesh/param_spec.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

struct GlobalTensor {
  std::string name;
  Shape global_shape;  // without padding
  Tensor local;        // contiguous, on the host; seen as matrix_rows x matrix_columns
  std::vector<ParamBox> boxes;
};

// A parameter, or with a prefix ("optimizer.exp_avg.") what belongs to it and is cut like it:
// `local` may be a vector or anything else with the count of spec.local_shape, and of any dtype.
GlobalTensor global_tensor(const ParamSpec& spec, const Tensor& local,
                           std::string_view prefix = "");
// A tensor that is local as a whole.
GlobalTensor whole_tensor(std::string name, const Tensor& local);

enum class Coverage { kPartial, kWhole };
// InternalError unless every box lies inside both tensors; for kWhole also unless the boxes are
// disjoint and cover the global tensor.
void check_boxes(const GlobalTensor& tensor, Coverage coverage);

// The bytes of the global tensor (row-major, little-endian), in pieces of at most 1 MiB, straight
// from the local tensor where it is in one piece. The boxes must cover the tensor.
void visit_global_bytes(const GlobalTensor& tensor,
                        const std::function<void(std::span<const std::byte>)>& visit);

// The boxes' elements from the bytes of the whole global tensor of type `dtype`, converted (to the
// nearest value) where the local type is another floating-point one. Elements outside the boxes
// stay as they are.
void fill_from_global_bytes(const GlobalTensor& tensor, DType dtype,
                            std::span<const std::byte> bytes);

// One floating-point or integer element as double: NaN and infinities included, i64 rounded.
double element_as_double(DType dtype, const std::byte* element);

}  // namespace phalanx
