#include "phalanx/train/disk_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

constexpr double kGigabyte = 1e9;

// A number above zero that fills the text; 0 for anything else.
double rate_of(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && std::isfinite(value) && value > 0.0 ? value : 0.0;
}

}  // namespace

DiskTraffic disk_traffic(const TransferTotals& transfers) {
  DiskTraffic traffic;
  for (const auto& [key, total] : transfers.by_key()) {
    (key.second == "read" ? traffic.read : traffic.written) += total.bytes;
  }
  return traffic;
}

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

std::optional<DiskStep> disk_step(const LayoutConfig& layout, std::span<const DiskTraffic> traffic,
                                  const std::function<int(int rank)>& host) {
  std::map<int, DiskTraffic> of_hosts;
  for (std::size_t rank = 0; rank < traffic.size(); ++rank) {
    DiskTraffic& of_host = of_hosts[host(static_cast<int>(rank))];
    of_host.read += traffic[rank].read;
    of_host.written += traffic[rank].written;
  }
  DiskStep busiest;
  for (const auto& [number, moved] : of_hosts) {
    const DiskTraffic& most = busiest.traffic;
    if (moved.read + moved.written > most.read + most.written) busiest.traffic = moved;
  }
  if (busiest == DiskStep{}) return std::nullopt;
  if (const auto rates = disk_rates(layout)) {
    busiest.seconds = static_cast<double>(busiest.traffic.read) / rates->read +
                      static_cast<double>(busiest.traffic.written) / rates->written;
  }
  return busiest;
}

std::string to_text(const DiskStep& step, const LayoutConfig& layout) {
  std::string text = fmt::format("reads {} and writes {}", format_bytes(step.traffic.read),
                                 format_bytes(step.traffic.written));
  if (!step.seconds) return text;
  const DiskRates rates = *disk_rates(layout);
  return text + fmt::format(", which takes {:.3g} s at {:.3g} and {:.3g} GB/s", *step.seconds,
                            rates.read / kGigabyte, rates.written / kGigabyte);
}

}  // namespace phalanx
