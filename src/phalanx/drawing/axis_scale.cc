#include "phalanx/drawing/axis_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/drawing/markup.h"

namespace phalanx {
namespace {

constexpr double kSpace = 0.04;  // at the ends, of the extent

// Labels of one axis have equally many decimals: as many as tell neighbours apart.
std::string tick_label(double value, double step, const AxisScale& scale) {
  const double size = std::max(std::abs(scale.low), std::abs(scale.high));
  if (size >= 1e4 || size < 1e-3) {
    const int digits = static_cast<int>(std::ceil(std::log10(size / step) - 1e-9)) + 1;
    return short_value(value, std::clamp(digits, 3, 15));
  }
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<AxisTick> linear_ticks(const AxisScale& scale, double wanted, TickValues values) {
  double step = round_step((scale.high - scale.low) / wanted);
  if (values == TickValues::kWhole) step = std::max(step, 1.0);
  std::vector<AxisTick> found;
  for (double i = std::ceil(scale.low / step - 1e-9);
       i * step <= scale.high * (1 + 1e-12) + 1e-9 * step; ++i) {
    const double value = i * step + 0.0;  // no negative zero
    found.push_back({value, tick_label(value, step, scale)});
  }
  return found;
}

std::vector<AxisTick> logarithmic_ticks(const AxisScale& scale, double wanted, TickValues values) {
  const double decades = std::log10(scale.high / scale.low);
  if (decades < 0.7) return linear_ticks(scale, wanted, values);
  // Of many decades each second or third has a tick; of few decades 1, 2 and 5 of each have one.
  const int every = std::max(1, static_cast<int>(std::ceil(decades / wanted)));
  const bool has_parts = decades < wanted / 2.0;
  std::vector<AxisTick> found;
  const int first = static_cast<int>(std::floor(std::log10(scale.low)));
  for (int exponent = first; exponent <= std::log10(scale.high) + 1e-9; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !has_parts) break;
      if (exponent % every != 0 && !has_parts) continue;
      const double value = factor * std::pow(10.0, exponent);
      if (value < scale.low * (1 - 1e-9) || value > scale.high * (1 + 1e-9)) continue;
      found.push_back({value, short_value(value, 2)});
    }
  }
  return found.empty() ? linear_ticks(scale, wanted, values) : found;
}

}  // namespace

double AxisScale::place(double value) const {
  double share = 0;
  if (logarithmic) {
    share = value > 0 ? std::log(value / low) / std::log(high / low) : 0;
  } else {
    share = (value - low) / (high - low);
  }
  return std::clamp(share, 0.0, 1.0);
}

double round_step(double least) {
  PHALANX_CHECK(least > 0.0, "ticks {} apart", least);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  // A step that a rounding error makes too small is the step meant.
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

AxisScale scale_over(double least, double most, bool logarithmic, bool from_zero) {
  if (logarithmic && least > 0) {
    if (most <= least * 1.0001) return {least / 1.5, least * 1.5, true};
    const double space = std::pow(most / least, kSpace);
    return {least / space, most * space, true};
  }
  if (from_zero && least >= 0) {
    return {0, most > 0 ? most * (1 + kSpace) : 1, false};
  }
  double extent = most - least;
  // A smaller extent is rounding.
  const double smallest = 1e-6 * std::max({std::abs(most), std::abs(least), 1e-30});
  if (extent < smallest) {
    extent = least == 0 && most == 0 ? 1.0 : std::max(std::abs(most), std::abs(least));
    return {least - extent / 2, most + extent / 2, false};
  }
  return {least - kSpace * extent, most + kSpace * extent, false};
}

std::vector<AxisTick> ticks(const AxisScale& scale, double wanted, TickValues values) {
  return scale.logarithmic ? logarithmic_ticks(scale, wanted, values)
                           : linear_ticks(scale, wanted, values);
}

}  // namespace phalanx
