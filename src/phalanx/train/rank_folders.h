#pragma once
// The folders of a rank's files, where its states do not all lie in memory.

#include <map>
#include <memory>
#include <string>

#include "phalanx/storage/storage_folder.h"
#include "phalanx/train/config.h"

namespace phalanx {

// By the directory that a flag names.
using RankFolders = std::map<std::string, std::unique_ptr<StorageFolder>>;

// Claims them for a rank of a run. OutputError as StorageFolder has it.
RankFolders open_folders(const LayoutConfig& layout, const std::string& run, int rank);

}  // namespace phalanx
