#pragma once
// Groups of rows (ops/grouped_linear.h).

#include <algorithm>
#include <cstdint>
#include <span>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/range.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::cpu {

class RowGroups {
 public:
  // InternalError unless the groups lie in `rows` rows, one behind the other.
  RowGroups(const Tensor& offsets, std::int64_t rows) : offsets_(offsets.span<std::int32_t>()) {
    std::int64_t last = 0;
    for (const std::int32_t offset : offsets_) {
      PHALANX_CHECK(offset >= last && offset <= rows, "offsets of groups: {} behind {} of {} rows",
                    offset, last, rows);
      last = offset;
    }
  }

  std::int64_t count() const { return std::ssize(offsets_) - 1; }
  Range rows(std::int64_t group) const {
    const auto g = static_cast<std::size_t>(group);
    return {offsets_[g], offsets_[g + 1]};
  }
  // The rows of all groups.
  Range all() const { return {offsets_.front(), offsets_.back()}; }
  // The group of a row of all().
  std::int64_t group_of(std::int64_t row) const {
    return std::ranges::upper_bound(offsets_, row) - offsets_.begin() - 1;
  }

 private:
  std::span<const std::int32_t> offsets_;
};

}  // namespace phalanx::cpu
