#pragma once
// The file of a step's shapes: plan --write-shapes writes it, bench device --shapes reads it.

#include <string>
#include <string_view>

#include "phalanx/clock/wanted_shapes.h"

namespace phalanx {

// One JSON document: {"products": [{"op", "rows", "n", "k"}], "attention": [{"op", "rows", "batch",
// "heads", "head_size"}]}.
std::string to_json(const WantedShapes& shapes);
// DataError that names `file` and the field.
WantedShapes wanted_shapes_from_json(std::string_view text, std::string_view file);

}  // namespace phalanx
