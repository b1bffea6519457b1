#include "phalanx/base/working_directory.h"

#include <system_error>

#include "phalanx/base/error.h"

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

}  // namespace phalanx
