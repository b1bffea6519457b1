#pragma once
// Checkpoints that do not last (--non-persistent-save-interval): the newest stays alone, in a
// directory of its own. A run that resumes takes the newest of --load and of these.

#include <filesystem>
#include <optional>

#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Where checkpoints that do not last lie for this save directory: --non-persistent-global-ckpt-dir,
// or as in Megatron SAVE/non_persistent. Empty: there are none.
std::filesystem::path non_persistent_directory(const RunConfig& run,
                                               const std::filesystem::path& save);

// The newest checkpoint that does not last, where a resume from --load is to take it: it is newer
// than all that --load has, and of the same run. Empty: there is none.
std::optional<SavedCheckpoint> newest_non_persistent(const RunConfig& run,
                                                     const std::filesystem::path& load);

}  // namespace phalanx
