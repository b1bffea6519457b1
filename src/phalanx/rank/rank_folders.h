#pragma once
// The folders of a rank's files, where its states do not all lie in memory.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "phalanx/offload/storage_folder.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// By the directory that a flag names.
using RankFolders = std::map<std::string, std::unique_ptr<StorageFolder>>;

// Claims them for a rank of a run, whose `start` has a name that no other has. Errors and `poll` as
// StorageFolder has them.
RankFolders open_folders(const LayoutConfig& layout, const std::string& start, int rank,
                         const std::function<void()>& poll = nullptr);

}  // namespace phalanx
