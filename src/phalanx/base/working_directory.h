#pragma once
// Paths from the working directory, which another process may have removed.

#include <filesystem>
#include <string>

namespace phalanx {

// The absolute path. InputMissingError if `path` is relative and the working directory is gone.
std::filesystem::path absolute_path(const std::filesystem::path& path);
// The same for JSON, from which it is read back: UsageError where it is not UTF-8, since other
// bytes in place of the wrong ones would name another file.
std::string recorded_path(const std::filesystem::path& path);

}  // namespace phalanx
