#include "phalanx/base/memory_need.h"

#include <algorithm>
#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

void expect_memory(std::string_view what, double bytes, std::string_view remedy,
                   const AvailableMemory& available) {
  if (bytes <= static_cast<double>(available.bytes)) return;
  constexpr auto kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 2);
  throw ConfigError("{} takes {} of memory, and {} are available ({}): {}", what,
                    format_bytes(static_cast<std::int64_t>(std::min(bytes, kMost))),
                    format_bytes(available.bytes), available.limit, remedy);
}

}  // namespace phalanx
