#pragma once
// What a save cleans up: the remains of killed runs, and checkpoints beyond the number to keep. It
// begins when the new checkpoint is safe, so a failure is only a warning.

#include <cstdint>
#include <filesystem>

#include "phalanx/checkpoint/retention.h"

namespace phalanx {

// Removes staging directories, and copies that were set aside and have been replaced. A copy that
// has not been replaced gets its name back.
void tidy_up(const std::filesystem::path& save);

// Removes those of the checkpoints up to that one that need not stay. Later ones belong to another
// run that went further, and stay.
void prune(const std::filesystem::path& save, std::int64_t start, std::int64_t iteration,
           const Retention& retention);

}  // namespace phalanx
