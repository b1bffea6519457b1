#include "phalanx/comm/sum_tree.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

SumTree::SumTree(int values, int block) : values_(values), block_(block) {
  PHALANX_CHECK(values >= 1 && block >= 2, "a sum of {} values in blocks of {}", values, block);
  while (nodes(levels_) > 1) ++levels_;
}

int SumTree::nodes(int level) const {
  std::int64_t count = values_;
  for (int below = 0; below < level; ++below) count = (count + block_ - 1) / block_;
  return static_cast<int>(count);
}

int SumTree::terms(int level, int node) const {
  const std::int64_t first = std::int64_t{node} * block_;
  return static_cast<int>(std::min<std::int64_t>(block_, nodes(level - 1) - first));
}

}  // namespace phalanx
