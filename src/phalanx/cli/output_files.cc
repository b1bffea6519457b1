#include "phalanx/cli/output_files.h"

#include <algorithm>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx {

Arguments with_long_names(Arguments arguments) {
  std::ranges::replace(arguments, std::string("-o"), std::string("--output"));
  return arguments;
}

void check_output(std::string_view flag, const std::filesystem::path& path, bool overwrite) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return;
  if (!std::filesystem::is_regular_file(status)) {
    throw OutputError("{} {}: is there and no regular file: name another", flag, path.string());
  }
  if (!overwrite) {
    throw ConfigError("{} {}: is there already: give --overwrite to replace it", flag,
                      path.string());
  }
}

void check_writable(std::string_view flag, const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  std::error_code unknown;
  if (!folder.empty() && !std::filesystem::is_directory(folder, unknown)) {
    throw OutputError("{} {}: there is no directory {}: make it", flag, path.string(),
                      folder.string());
  }
  // Beside the file, and removed at once.
  const DurableFile probe(path);
}

}  // namespace phalanx
