#pragma once
// Storage on a disk with a given engine: tests pass one that fails.

#include <memory>

#include "phalanx/disk/block_engine.h"
#include "phalanx/offload/storage.h"
#include "phalanx/offload/storage_folder.h"

namespace phalanx {

std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena, const EngineMaker& make);

}  // namespace phalanx
