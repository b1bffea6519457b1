#include "phalanx/base/memory_need.h"

#include <algorithm>
#include <cstdint>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

void expect_memory(std::string_view what, double bytes, std::string_view remedy,
                   const AvailableMemory& available) {
  if (bytes <= static_cast<double>(available.bytes)) return;
  constexpr double kMost = 4e18;  // of what format_bytes() takes
  throw ConfigError("{} takes {} of memory, and {} are available ({}): {}", what,
                    format_bytes(static_cast<std::int64_t>(std::min(bytes, kMost))),
                    format_bytes(available.bytes), available.limit, remedy);
}

}  // namespace phalanx
