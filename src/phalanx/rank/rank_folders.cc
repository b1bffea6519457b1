#include "phalanx/rank/rank_folders.h"

#include <array>
#include <utility>

namespace phalanx {

RankFolders open_folders(const LayoutConfig& layout, const std::string& start, int rank,
                         const std::function<void()>& poll) {
  const std::array<std::pair<const char*, const std::string*>, 3> flags = {
      {{"--offload-optimizer-to", &layout.offload_optimizer_to},
       {"--offload-parameters-to", &layout.offload_parameters_to},
       {"--offload-activations-to", &layout.offload_activations_to}}};
  RankFolders folders;
  for (const auto& [flag, directory] : flags) {
    if (directory->empty() || folders.contains(*directory)) continue;
    folders[*directory] = std::make_unique<StorageFolder>(*directory, start, rank, flag, poll);
  }
  return folders;
}

}  // namespace phalanx
