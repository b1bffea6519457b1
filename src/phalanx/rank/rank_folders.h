#pragma once
// The folders in which a rank keeps states that do not lie in memory.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "phalanx/offload/storage_folder.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// By the directory that a flag names.
using RankFolders = std::map<std::string, std::unique_ptr<StorageFolder>>;

// Claims the folders for a rank. `start` is the unique name of this start of the run. Errors and
// `poll` are those of StorageFolder.
RankFolders open_folders(const LayoutConfig& layout, const std::string& start, int rank,
                         const std::function<void()>& poll = nullptr);

}  // namespace phalanx
