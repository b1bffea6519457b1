#pragma once
// How fast a disk reads and writes, as --disk-bandwidth says it.

#include <optional>

#include "phalanx/settings/train_config.h"

namespace phalanx {

// Bytes per second.
struct DiskRates {
  double read = 0.0;
  double written = 0.0;
};
// The value of --disk-bandwidth, if it is given. ConfigError unless it is two numbers above zero.
std::optional<DiskRates> disk_rates(const LayoutConfig& layout);

}  // namespace phalanx
