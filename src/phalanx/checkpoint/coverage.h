#pragma once
// The proof that boxes are a tensor: disjoint, and together all of it.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/mesh/matrix_box.h"

namespace phalanx {

struct OwnedBox {
  MatrixBox box;
  std::int64_t owner = 0;  // the rank whose part has it
};

// DataError names the tensor and what is wrong: elements that lie outside of it, that two boxes
// have (with their ranks), or that none has. `where` opens the message. O(n log n).
void check_coverage(std::string_view where, std::string_view tensor, const Shape& shape,
                    std::vector<OwnedBox> boxes);

}  // namespace phalanx
