#pragma once
// Parts of a parameter that are cut as flat ranges, as ZeRO cuts them.

#include <cstdint>
#include <vector>

#include "phalanx/mesh/param_spec.h"

namespace phalanx {

// What a rank holds of a parameter if it keeps but the elements [begin, begin + count) of its local
// part, as a ZeRO shard does: the boxes of `spec` clipped to them. A box becomes at most three: the
// rest of a row, whole rows, the beginning of a row. Padding has none. Local coordinates stay those
// of the whole local part. InternalError where the range leaves it.
std::vector<ParamBox> boxes_of_range(const ParamSpec& spec, std::int64_t begin, std::int64_t count);

}  // namespace phalanx
