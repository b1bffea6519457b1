#pragma once
// Storage on a disk with a given engine: tests pass one that fails.

#include <functional>
#include <memory>
#include <span>

#include "phalanx/offload/block_engine.h"
#include "phalanx/offload/storage_folder.h"

namespace phalanx {

using EngineMaker = std::function<std::unique_ptr<BlockEngine>(const StorageOptions& options,
                                                               std::span<std::byte> buffers)>;
std::unique_ptr<Storage> make_disk_storage(StorageFolder& folder, const StorageOptions& options,
                                           Arena& arena, const EngineMaker& make);

}  // namespace phalanx
