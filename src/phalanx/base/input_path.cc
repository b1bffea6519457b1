#include "phalanx/base/input_path.h"

#include <fmt/core.h>

#include <string_view>
#include <system_error>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

std::string_view name_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a directory";
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "something else";
  }
}

}  // namespace

std::string input_fault(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) return "no such file";
  if (type == fs::file_type::regular || error) return {};
  return fmt::format("is {}, not a regular file", name_of(type));
}

bool path_exists(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw InputMissingError("{}: cannot be looked at: {}", path.string(), error.message());
  }
  return fs::exists(status);
}

}  // namespace phalanx
