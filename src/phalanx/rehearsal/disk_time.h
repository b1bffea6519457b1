#pragma once
// The time that a step takes on the disk: the bytes that its plan reads from and writes to files,
// at the rates of --disk-bandwidth. All ranks of a host share one disk, whatever directories they
// name.
//
// The times of reads and writes are added. This is up to twice too long for a disk that does both
// at once without loss. But an update reads and writes tiles by turns, and on the disks that
// `phalanx bench disk` has measured ("by turns") that is about as slow as one after the other.

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

// One step on one host.
struct DiskStep {
  DiskTraffic traffic;
  std::optional<double> seconds = {};  // if the rates are known

  friend bool operator==(const DiskStep&, const DiskStep&) = default;
};
// The step of the host that moves the most; nothing if no rank has files. `traffic` is by rank.
std::optional<DiskStep> disk_step(const LayoutConfig& layout, std::span<const DiskTraffic> traffic,
                                  const std::function<int(int rank)>& host);

// "reads 1.50 GiB and writes 1.00 GiB, which takes 2.14 s at 1.00 and 2.00 GB/s".
std::string to_text(const DiskStep& step, const LayoutConfig& layout);

}  // namespace phalanx
