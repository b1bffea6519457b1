#pragma once
// Files that a command writes.

#include <filesystem>
#include <string_view>

#include "phalanx/cli/commands.h"

namespace phalanx {

// With --output for -o: flag tables have long names only.
Arguments with_long_names(Arguments arguments);

// ConfigError that names --overwrite if the file exists and must not be replaced; OutputError if
// something other than a file is there. `flag` names the file.
void check_output(std::string_view flag, const std::filesystem::path& path, bool overwrite);

// OutputError if no file can be written there: its folder is missing, or may not be written to.
void check_writable(std::string_view flag, const std::filesystem::path& path);

}  // namespace phalanx
