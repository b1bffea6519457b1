#pragma once
// Files that a command writes.

#include <filesystem>
#include <string_view>

namespace phalanx {

// ConfigError, which names --overwrite, where the file is there and is not to be replaced;
// OutputError where something else than a file is there. `flag` is the one that names the file.
void check_output(std::string_view flag, const std::filesystem::path& path, bool overwrite);

}  // namespace phalanx
