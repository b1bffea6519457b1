#pragma once
// Groups of rows for cases.

#include <numeric>
#include <vector>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

// Rows of groups; some rows lie in front of the first group, and some behind the last one.
struct GroupSizes {
  std::vector<std::int64_t> rows;
  std::int64_t front = 0, behind = 0;

  std::int64_t groups() const { return std::ssize(rows); }
  std::int64_t in_groups() const { return std::reduce(rows.begin(), rows.end()); }
  std::int64_t all() const { return front + in_groups() + behind; }
};

inline std::string name_of(const GroupSizes& sizes) {
  std::string name = sizes.rows.empty() ? "none" : "";
  for (const std::int64_t rows : sizes.rows) {
    name += fmt::format("{}{}", name.empty() ? "" : "+", rows);
  }
  if (sizes.front > 0) name += fmt::format(" behind {}", sizes.front);
  if (sizes.behind > 0) name += fmt::format(", {} more", sizes.behind);
  return name;
}

inline Tensor offsets_of(Operands& operands, const GroupSizes& sizes) {
  std::vector<double> offsets = {static_cast<double>(sizes.front)};
  for (const std::int64_t rows : sizes.rows) {
    offsets.push_back(offsets.back() + static_cast<double>(rows));
  }
  return operands.values(DType::kI32, {sizes.groups() + 1}, offsets);
}

// The rows of all groups: what ops write.
inline Tensor rows_in_groups(const Tensor& tensor, const GroupSizes& sizes) {
  return tensor.slice(0, sizes.front, sizes.in_groups());
}

// The same memory with its parts in reverse order, as parameters lie in flat buffers.
inline Tensor reversed(Tensor stacked) {
  stacked.offset += (stacked.shape[0] - 1) * stacked.strides[0] * size_of(stacked.dtype);
  stacked.strides[0] = -stacked.strides[0];
  return stacked;
}

}  // namespace phalanx::ops
