#include "phalanx/cli/output_files.h"

#include "phalanx/base/error.h"

namespace phalanx {

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

}  // namespace phalanx
