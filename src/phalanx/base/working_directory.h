#pragma once
// Paths from the working directory, which may have been removed below a shell or a job.

#include <filesystem>

namespace phalanx {

// The path from the root. InputMissingError where it is relative to a directory that is not there
// any more.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace phalanx
