#pragma once
// Groups of rows (ops/grouped_linear.h).

#include <cstdint>

#include "phalanx/ops/ref/access.h"

namespace phalanx::ref {

struct Group {
  std::int64_t number = 0;
  std::int64_t begin = 0, count = 0;  // rows

  Tensor rows_of(const Tensor& tensor) const { return tensor.slice(0, begin, count); }
};

// Calls visit(group) for every group, those without rows too.
template <typename Visit>
void for_each_group(const Tensor& offsets, std::int64_t rows, const Visit& visit) {
  const Integers numbers = read_integers(offsets);
  for (std::int64_t e = 0; e + 1 < offsets.shape[0]; ++e) {
    const std::int64_t begin = numbers(e);
    const std::int64_t end = numbers(e + 1);
    PHALANX_CHECK(begin >= 0 && begin <= end && end <= rows,
                  "group {} has rows {} to {} of {} rows", e, begin, end, rows);
    visit(Group{.number = e, .begin = begin, .count = end - begin});
  }
}

}  // namespace phalanx::ref
