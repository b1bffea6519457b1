#pragma once
// From values to places on an axis, and where round ticks stand.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

// An axis from `low` to `high`; a logarithmic one has positive ends.
struct ChartScale {
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  // 0 at `low`, 1 at `high`; what lies outside is moved to the nearer end.
  double place(double value) const;
};

// What contains all from `least` to `most`, with a little air, never without extent. A logarithmic
// one is refused, and becomes linear, where values are not positive.
ChartScale scale_over(double least, double most, bool logarithmic, bool from_zero);

struct ChartTick {
  double value = 0;
  std::string label;
};
// Iterations and samples have no fractions.
enum class TickValues : std::uint8_t { kAny, kWhole };
// At round values, 1, 2 or 5 times a power of ten; about `wanted` of them, at least one, unless
// there is no whole number on an axis of these. Different values have different labels.
std::vector<ChartTick> ticks(const ChartScale& scale, int wanted,
                             TickValues values = TickValues::kAny);

// "1.25 M", "48 k", "0.0003", "3e-8": a few significant digits, for people.
std::string short_value(double value, int digits = 3);

}  // namespace phalanx
