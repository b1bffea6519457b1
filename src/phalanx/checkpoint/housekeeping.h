#pragma once
// What a save cleans up: the remains of killed runs, and checkpoints beyond the number to keep. It
// begins when the new checkpoint is safe, so a failure is only a warning.

#include <cstdint>
#include <filesystem>

#include "phalanx/checkpoint/directory_holder.h"
#include "phalanx/checkpoint/retention.h"

namespace phalanx {

// Removes staging directories, and copies that were set aside and have been replaced. A copy that
// has not been replaced gets its name back. Nothing goes, here and below, where the directory is no
// longer the holder's.
void tidy_up(const std::filesystem::path& save, const DirectoryHolder& holder);

// Removes those of the holder's checkpoints up to that one that need not stay. Those of another run
// stay, with a warning; so do later ones, of a run that went further.
void prune(const std::filesystem::path& save, std::int64_t start, std::int64_t iteration,
           const Retention& retention, const DirectoryHolder& holder);

}  // namespace phalanx
