#include "phalanx/settings/faults.h"

#include <fmt/ranges.h>

namespace phalanx {

void Faults::raise() const {
  if (!messages_.empty()) throw ConfigError("{}", fmt::join(messages_, "\n"));
}

}  // namespace phalanx
