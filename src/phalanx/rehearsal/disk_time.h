#pragma once
// What a step takes of the disk: the bytes that its plan moves from and to files, at the rates of
// --disk-bandwidth. All ranks of a host share one disk, whatever directories they name.
//
// Reads and writes are added up. A disk that did both at once without loss would be predicted up to
// twice as slow as it is; but what an update moves, tiles that are read and written by turns, comes
// at about the rate of one after the other on the disks where `phalanx bench disk` has compared
// them ("by turns").

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "phalanx/settings/disk_rates.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// Bytes.
struct DiskTraffic {
  std::int64_t read = 0;
  std::int64_t written = 0;

  friend bool operator==(const DiskTraffic&, const DiskTraffic&) = default;
};
DiskTraffic disk_traffic(const TransferTotals& transfers);

// A step's on one host.
struct DiskStep {
  DiskTraffic traffic;
  std::optional<double> seconds = {};  // where the rates are known

  friend bool operator==(const DiskStep&, const DiskStep&) = default;
};
// Of the host that moves the most; nothing where no rank has files. `traffic` is by rank.
std::optional<DiskStep> disk_step(const LayoutConfig& layout, std::span<const DiskTraffic> traffic,
                                  const std::function<int(int rank)>& host);

// "reads 1.50 GiB and writes 1.00 GiB, which takes 2.14 s at 1.00 and 2.00 GB/s".
std::string to_text(const DiskStep& step, const LayoutConfig& layout);

}  // namespace phalanx
