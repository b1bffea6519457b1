#pragma once
// A range of rows, panels or depths of a product, and its pieces.

#include <algorithm>
#include <cstdint>

namespace phalanx::cpu {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};
// The piece number `index` of a range that is cut into pieces of `size`; the last may be shorter.
inline Range piece(std::int64_t index, std::int64_t size, const Range& of) {
  const std::int64_t begin = of.begin + index * size;
  return {begin, std::min(of.end, begin + size)};
}

}  // namespace phalanx::cpu
