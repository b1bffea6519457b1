#include "phalanx/base/working_directory.h"

#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/base/utf8.h"

namespace phalanx {

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code fault;
  std::filesystem::path absolute = std::filesystem::absolute(path, fault);
  if (!fault) return absolute;
  throw InputMissingError(
      "{}: the working directory cannot be found ({}): was it removed? Change (cd) to one that is "
      "there, or give paths from /",
      path.string(), fault.message());
}

std::string recorded_path(const std::filesystem::path& path) {
  std::string absolute = absolute_path(path).string();
  if (!first_foreign_byte(absolute)) return absolute;
  throw UsageError(
      "{}: the path is not UTF-8, and the files in which it is kept can hold nothing else: give "
      "the directory another name (mv){}",
      with_foreign_bytes_named(absolute),
      path.is_absolute() ? "" : "; it is the working directory, or above it");
}

}  // namespace phalanx
