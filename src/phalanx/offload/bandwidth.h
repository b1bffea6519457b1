#pragma once
// How fast a disk takes and gives states, as a step moves them: tiles, some of them under way while
// others are filled, through the engine that a run would use, checksums included.

#include <cstdint>
#include <functional>
#include <string>

#include "phalanx/offload/storage.h"
#include "phalanx/offload/storage_folder.h"

namespace phalanx {

struct BandwidthOptions {
  StorageOptions storage = {};
  std::int64_t file_bytes = std::int64_t{1} << 30;
  double seconds = 2.0;  // for each of four passes, which may end before; a tile is always whole
  // Asked between tiles: whether to end with what there is.
  std::function<bool()> is_stopped = [] { return false; };
};

struct DiskBandwidth {
  std::string description;   // of the storage
  std::int64_t bytes = 0;    // that were written and read back
  double write_per_s = 0.0;  // bytes: until they were on the disk, over what was there before
  double read_per_s = 0.0;   // bytes: from the disk, not from memory
  double both_per_s = 0.0;   // bytes: tiles are read and written by turns, as an update does
};

// The file is made in `folder` and removed, also when this ends with an error.
DiskBandwidth measure_bandwidth(StorageFolder& folder, const BandwidthOptions& options);

}  // namespace phalanx
