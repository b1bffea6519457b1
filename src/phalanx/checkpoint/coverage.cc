#include "phalanx/checkpoint/coverage.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

bool lies_in(const MatrixBox& box, const MatrixBox& whole) {
  return box.row >= 0 && box.column >= 0 && box.rows > 0 && box.columns > 0 &&
         box.rows <= whole.rows - box.row && box.columns <= whole.columns - box.column;
}

}  // namespace

void check_coverage(std::string_view where, std::string_view tensor, const Shape& shape,
                    std::vector<OwnedBox> boxes) {
  const MatrixBox whole = whole_box(shape);
  std::int64_t covered = 0;
  for (const auto& [box, owner] : boxes) {
    if (!lies_in(box, whole)) {
      throw DataError("{}: tensor {} is {}: the part of rank {} has a box outside of it", where,
                      tensor, shape.to_string(), owner);
    }
    covered += box.count();
  }
  // A line sweeps over the rows. The boxes that it crosses are disjoint intervals of columns, by
  // their first column; those that ended above it are removed as far as they are met.
  std::ranges::sort(boxes, {}, [](const OwnedBox& owned) { return owned.box.row; });
  std::map<std::int64_t, const OwnedBox*> crossed;
  for (const OwnedBox& owned : boxes) {
    const MatrixBox& box = owned.box;
    const auto is_above = [&](const OwnedBox& other) {
      return other.box.row + other.box.rows <= box.row;
    };
    auto next = crossed.upper_bound(box.column);
    if (next != crossed.begin()) --next;
    while (next != crossed.end() && next->first < box.column + box.columns) {
      const OwnedBox& other = *next->second;
      if (is_above(other)) {
        next = crossed.erase(next);
        continue;
      }
      if (overlap(other.box, box).count() > 0) {
        throw DataError(
            "{}: tensor {}: the element in row {} and column {} is written twice, by rank {} and "
            "by rank {}",
            where, tensor, box.row, std::max(box.column, other.box.column), other.owner,
            owned.owner);
      }
      ++next;
    }
    crossed[box.column] = &owned;
  }
  if (covered != shape.count()) {
    throw DataError("{}: tensor {} is {}: the parts have {} of its {} elements", where, tensor,
                    shape.to_string(), covered, shape.count());
  }
}

}  // namespace phalanx
