#pragma once
// Initialisation: normal and uniform numbers with coordinates (base/philox.h). x is a box of a
// global matrix: its element (r, c) is element (first_row + r) * global_columns + first_column + c,
// whatever the layout.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct Normal {
  Tensor x;  // [rows, columns], rows may be strided
  PhiloxKey key;
  std::uint64_t parameter = 0;  // parameter_coordinate(global name)
  double deviation = 1.0;
  std::int64_t global_columns = 0;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
};

// Between -bound and bound.
struct Uniform {
  Tensor x;  // [rows, columns], rows may be strided
  PhiloxKey key;
  std::uint64_t parameter = 0;  // parameter_coordinate(global name)
  double bound = 1.0;
  std::int64_t global_columns = 0;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
};

OpCost cost(const Normal& op);
OpCost cost(const Uniform& op);
void normal(Context& context, const Normal& op);
void uniform(Context& context, const Uniform& op);

}  // namespace phalanx::ops
