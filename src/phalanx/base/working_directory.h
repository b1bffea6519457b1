#pragma once
// Paths from the working directory, which another process may have removed.

#include <filesystem>

namespace phalanx {

// The absolute path. InputMissingError if `path` is relative and the working directory is gone.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace phalanx
