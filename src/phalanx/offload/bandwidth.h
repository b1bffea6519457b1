#pragma once
// Measures how fast states can be written to a disk and read back in the way of a step: by tiles,
// some under way while others are filled, with the engine that a run would use, and with checksums.

#include <cstdint>
#include <functional>
#include <string>

#include "phalanx/offload/storage.h"
#include "phalanx/offload/storage_folder.h"

namespace phalanx {

struct BandwidthOptions {
  StorageOptions storage = {};
  std::int64_t file_bytes = std::int64_t{1} << 30;
  double seconds = 2.0;  // at most, for each of four passes; a tile is always completed
  // Called between tiles: whether to end early.
  std::function<bool()> is_stopped = [] { return false; };
};

struct DiskBandwidth {
  std::string description;   // of the storage
  std::int64_t bytes = 0;    // written and read back
  double write_per_s = 0.0;  // bytes; until they are on the disk, in place of earlier ones
  double read_per_s = 0.0;   // bytes; from the disk, not from memory
  double both_per_s = 0.0;   // bytes; tiles are read and written in turn, as in an update
};

// The file is made in `folder`, and removed also after an error.
DiskBandwidth measure_bandwidth(StorageFolder& folder, const BandwidthOptions& options);

}  // namespace phalanx
