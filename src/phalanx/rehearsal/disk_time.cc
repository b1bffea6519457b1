#include "phalanx/rehearsal/disk_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

constexpr double kGigabyte = 1e9;

}  // namespace

DiskTraffic disk_traffic(const TransferTotals& transfers) {
  DiskTraffic traffic;
  for (const auto& [key, total] : transfers.by_key()) {
    (key.second == "read" ? traffic.read : traffic.written) += total.bytes;
  }
  return traffic;
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
    busiest.seconds = rates->seconds(static_cast<double>(busiest.traffic.read),
                                     static_cast<double>(busiest.traffic.written));
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
