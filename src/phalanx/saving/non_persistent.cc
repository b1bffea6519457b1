#include "phalanx/saving/non_persistent.h"

#include <utility>
#include <vector>

#include "phalanx/base/log.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNonPersistentName = "non_persistent";

auto order(const SavedCheckpoint& checkpoint) {
  return std::pair(checkpoint.start, checkpoint.iteration);
}

}  // namespace

fs::path non_persistent_directory(const RunConfig& run, const fs::path& save) {
  if (run.non_persistent_ckpt_type.empty() || save.empty()) return {};
  return run.non_persistent_global_ckpt_dir.empty() ? save / kNonPersistentName
                                                    : fs::path(run.non_persistent_global_ckpt_dir);
}

std::optional<SavedCheckpoint> newest_non_persistent(const RunConfig& run, const fs::path& load) {
  const fs::path directory = non_persistent_directory(run, load);
  if (directory.empty() || run.finetune) return std::nullopt;
  const std::vector<SavedCheckpoint> saved = saved_checkpoints(directory);
  if (saved.empty()) return std::nullopt;
  const std::vector<SavedCheckpoint> lasting = saved_checkpoints(load);
  if (lasting.empty()) return saved.back();
  if (order(saved.back()) <= order(lasting.back())) return std::nullopt;
  if (saved.back().run_id == lasting.back().run_id) return saved.back();
  log_warning("{}: is of another run than --load {}, and not used", saved.back().directory.string(),
              load.string());
  return std::nullopt;
}

}  // namespace phalanx
