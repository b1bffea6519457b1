#pragma once
// How fast a disk reads and writes, as --disk-bandwidth says it.

#include <optional>

#include "phalanx/settings/train_config.h"

namespace phalanx {

// Bytes per second.
struct DiskRates {
  double read = 0.0;
  double written = 0.0;

  // That a disk takes for so many bytes, which it reads and writes by turns.
  double seconds(double read_bytes, double written_bytes) const {
    return read_bytes / read + written_bytes / written;
  }
};
// The value of --disk-bandwidth, if it is given. ConfigError unless it is two numbers above zero.
std::optional<DiskRates> disk_rates(const LayoutConfig& layout);

}  // namespace phalanx
