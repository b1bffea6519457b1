#include "phalanx/data/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string_view name_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kTrain:
      return "train";
    case SplitKind::kValid:
      return "valid";
    case SplitKind::kTest:
      return "test";
  }
  return "?";
}

Split::Split(std::string_view text) {
  std::size_t parts = 0;
  std::string_view rest = text;
  for (bool more = true; more; ++parts) {
    const auto end = rest.find_first_of(",/");
    more = end != std::string_view::npos;
    const auto number = trimmed(rest.substr(0, end));
    if (more) rest.remove_prefix(end + 1);
    double value = 0;
    const auto [stop, status] = std::from_chars(number.data(), number.data() + number.size(), value,
                                                std::chars_format::fixed);
    if (parts == shares_.size() || status != std::errc() || stop != number.data() + number.size() ||
        !std::isfinite(value) || value < 0) {
      throw ConfigError(
          "--split {}: give up to three numbers that are not negative, such as "
          "969,30,1 (train, valid, test)",
          text);
    }
    shares_[parts] = value;
  }
  const double sum = shares_[0] + shares_[1] + shares_[2];
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw ConfigError("--split {}: the numbers add up to {}; at least one must be positive", text,
                      sum);
  }
  for (double& share : shares_) share /= sum;
}

IndexRange Split::range(SplitKind kind, std::int64_t count) const {
  const auto boundary = [&](std::size_t part) {
    double cumulative = 0;
    for (std::size_t k = 0; k < part; ++k) cumulative += shares_[k];
    // nearbyint rounds half to even; the sum of the shares may exceed 1 by a rounding.
    const auto rounded = std::nearbyint(cumulative * static_cast<double>(count));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(rounded), 0, count);
  };
  const auto part = static_cast<std::size_t>(kind);
  return {boundary(part), boundary(part + 1)};
}

}  // namespace phalanx
