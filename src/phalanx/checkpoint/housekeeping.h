#pragma once
// What saves do beside saving: they remove what killed runs left and checkpoints that are too many.
// A checkpoint is safe before any of it begins and after it, so what fails is a warning.

#include <cstdint>
#include <filesystem>

namespace phalanx {

// Removes staging directories and aside copies whose successor is there. A copy without one gets
// its name back.
void tidy_up(const std::filesystem::path& save);

// Removes all but the last `keep_last` of the checkpoints up to that one; 0: none. Later ones
// belong to somebody who went further: they are not ours to judge.
void prune(const std::filesystem::path& save, std::int64_t start, std::int64_t iteration,
           int keep_last);

}  // namespace phalanx
