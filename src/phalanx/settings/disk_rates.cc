#include "phalanx/settings/disk_rates.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

constexpr double kGigabyte = 1e9;

// A number above zero that fills the text; 0 for anything else.
double rate_of(std::string_view text) {
  const double value = parse_number<double>(text).value_or(0.0);
  return std::isfinite(value) && value > 0.0 ? value : 0.0;
}

}  // namespace

std::optional<DiskRates> disk_rates(const LayoutConfig& layout) {
  const std::string_view text = layout.disk_bandwidth;
  if (text.empty()) return std::nullopt;
  const std::size_t comma = std::min(text.find(','), text.size());
  const double read = rate_of(text.substr(0, comma));
  const double written = rate_of(text.substr(std::min(comma + 1, text.size())));
  if (read == 0.0 || written == 0.0) {
    throw ConfigError(
        "--disk-bandwidth {}: give the GB/s of reading and of writing, two numbers above 0 with a "
        "comma between, as `phalanx bench disk DIR` prints them",
        text);
  }
  return DiskRates{.read = read * kGigabyte, .written = written * kGigabyte};
}

}  // namespace phalanx
