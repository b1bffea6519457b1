#include "phalanx/start/stillness_limit.h"

#include <algorithm>
#include <cstdint>

namespace phalanx {
namespace {

constexpr double kLeastSeconds = 60.0;
constexpr double kMostSeconds = 1e9;
constexpr double kTimesAsSlow = 20.0;
constexpr double kSlowMemory = 1e9;  // bytes/s

}  // namespace

std::chrono::milliseconds stillness_limit(const LargestUnit& unit, double flops_per_second) {
  double seconds = static_cast<double>(unit.bytes) / kSlowMemory;
  if (flops_per_second > 0.0) seconds += static_cast<double>(unit.flops) / flops_per_second;
  const double limit = std::clamp(kTimesAsSlow * seconds, kLeastSeconds, kMostSeconds);
  return std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1e3));
}

}  // namespace phalanx
