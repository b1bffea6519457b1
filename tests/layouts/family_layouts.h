#pragma once
// Layouts of the families beside GPT: a covering set of where its parts can be, what ranks do, and
// the model; or at night a product.

#include <string>
#include <vector>

#include "layout.h"

namespace phalanx {

// `family`: bert, t5.
std::vector<Layout> family_layouts(const std::string& family, bool nightly);

}  // namespace phalanx
