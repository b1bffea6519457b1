#include "phalanx/drawing/charts_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace phalanx {
namespace {

constexpr double kAir = 0.04;  // of the extent

// The smallest of 1, 2, 5, 10, ... times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

std::string without_trailing_zeros(std::string text) {
  const auto exponent = std::min(text.find('e'), text.size());
  std::string tail = text.substr(exponent);
  text.resize(exponent);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + tail;
}

// Enough decimals to tell a tick from its neighbour; all of an axis in one style.
std::string tick_label(double value, double step, const ChartScale& scale) {
  const double size = std::max(std::abs(scale.low), std::abs(scale.high));
  if (size >= 1e4 || size < 1e-3) {
    const int digits = static_cast<int>(std::ceil(std::log10(size / step) - 1e-9)) + 1;
    return short_value(value, std::clamp(digits, 3, 15));
  }
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<ChartTick> linear_ticks(const ChartScale& scale, int wanted, TickValues values) {
  double step = round_step((scale.high - scale.low) / wanted);
  if (values == TickValues::kWhole) step = std::max(step, 1.0);
  std::vector<ChartTick> found;
  for (double i = std::ceil(scale.low / step - 1e-9);
       i * step <= scale.high * (1 + 1e-12) + 1e-9 * step; ++i) {
    const double value = i * step + 0.0;  // no negative zero
    found.push_back({value, tick_label(value, step, scale)});
  }
  return found;
}

std::vector<ChartTick> logarithmic_ticks(const ChartScale& scale, int wanted, TickValues values) {
  const double decades = std::log10(scale.high / scale.low);
  if (decades < 0.7) return linear_ticks(scale, wanted, values);
  // Many decades: each second or third; few: 1, 2 and 5 of each.
  const int every = std::max(1, static_cast<int>(std::ceil(decades / wanted)));
  const bool has_parts = decades < wanted / 2.0;
  std::vector<ChartTick> found;
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

double ChartScale::place(double value) const {
  double share = 0;
  if (logarithmic) {
    share = value > 0 ? std::log(value / low) / std::log(high / low) : 0;
  } else {
    share = (value - low) / (high - low);
  }
  return std::clamp(share, 0.0, 1.0);
}

ChartScale scale_over(double least, double most, bool logarithmic, bool from_zero) {
  if (logarithmic && least > 0) {
    if (most <= least * 1.0001) return {least / 1.5, least * 1.5, true};
    const double air = std::pow(most / least, kAir);
    return {least / air, most * air, true};
  }
  if (from_zero && least >= 0) {
    return {0, most > 0 ? most * (1 + kAir) : 1, false};
  }
  double extent = most - least;
  // Beyond what doubles tell apart there is nothing to see.
  const double smallest = 1e-6 * std::max({std::abs(most), std::abs(least), 1e-30});
  if (extent < smallest) {
    extent = least == 0 && most == 0 ? 1.0 : std::max(std::abs(most), std::abs(least));
    return {least - extent / 2, most + extent / 2, false};
  }
  return {least - kAir * extent, most + kAir * extent, false};
}

std::vector<ChartTick> ticks(const ChartScale& scale, int wanted, TickValues values) {
  return scale.logarithmic ? logarithmic_ticks(scale, wanted, values)
                           : linear_ticks(scale, wanted, values);
}

std::string short_value(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const double size = std::abs(value);
  struct Unit {
    double size;
    const char* name;
  };
  static constexpr std::array<Unit, 5> kUnits = {
      {{1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  if (size >= 1e4 && size < 1e18) {
    for (const Unit& unit : kUnits) {
      // What rounds to a thousand of a unit is one of the next.
      if (size < unit.size * (1 - 0.5 * std::pow(10.0, -digits))) continue;
      const double in_units = value / unit.size;
      const int whole =
          std::max(1, static_cast<int>(std::floor(std::log10(std::abs(in_units)))) + 1);
      return without_trailing_zeros(fmt::format("{:.{}f}", in_units, std::max(0, digits - whole))) +
             unit.name;
    }
  }
  if (size >= 1e18 || size < 1e-3) {
    const std::string text = without_trailing_zeros(fmt::format("{:.{}e}", value, digits - 1));
    // 3e-04 is 3e-4.
    const auto mark = text.find('e');
    return fmt::format("{}e{}", text.substr(0, mark), std::atoi(text.c_str() + mark + 1));
  }
  const int whole = static_cast<int>(std::floor(std::log10(size))) + 1;
  return without_trailing_zeros(fmt::format("{:.{}f}", value, std::max(0, digits - whole)));
}

}  // namespace phalanx
