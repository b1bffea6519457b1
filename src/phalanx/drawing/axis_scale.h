#pragma once
// From values to places on an axis, and where its ticks are.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

// An axis from `low` to `high`. Both ends of a logarithmic axis are positive.
struct AxisScale {
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  // 0 at `low`, 1 at `high`; a value outside is moved to the nearer end.
  double place(double value) const;
};

// An axis for the values from `least` to `most`, with some space at its ends, never without
// extent. It is linear, although a logarithmic one is asked for, where values are not positive.
AxisScale scale_over(double least, double most, bool logarithmic, bool from_zero);

// The smallest of 1, 2 and 5 times a power of ten that is at least `least` (> 0).
double round_step(double least);

struct AxisTick {
  double value = 0;
  std::string label;
};
// Iterations and samples have no fractions.
enum class TickValues : std::uint8_t { kAny, kWhole };
// About `wanted` ticks at round values, at least one, unless an axis of whole values has none.
// Different values have different labels.
std::vector<AxisTick> ticks(const AxisScale& scale, double wanted,
                            TickValues values = TickValues::kAny);

}  // namespace phalanx
