#include "phalanx/base/lfs_pointer.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
constexpr std::size_t kLongest = 1024;  // Git LFS's limit

// Finds the size in a line such as "size 4960000000"; empty if there is none.
std::string_view size_of_file(std::string_view text) {
  constexpr std::string_view kSize = "\nsize ";
  const std::size_t begin = text.find(kSize);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = text.substr(begin + kSize.size());
  const std::string_view digits =
      rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
  return digits.size() > 19 ? std::string_view() : digits;
}

}  // namespace

bool is_lfs_pointer(std::string_view text) {
  return text.size() <= kLongest && text.starts_with(kBegin);
}

void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view text) {
  if (!is_lfs_pointer(text)) return;
  const std::string_view bytes = size_of_file(text);
  const std::string folder = path.parent_path().string();
  throw InputMissingError(
      "{}: a Git LFS pointer, which stands for the file{}{}{}: the file itself was not fetched: "
      "run `git lfs pull` in {}",
      path.string(), bytes.empty() ? "" : " of ", bytes, bytes.empty() ? "" : " bytes",
      folder.empty() ? "its folder" : folder);
}

void refuse_lfs_pointer(const std::filesystem::path& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);  // a pipe is read once
  if (!is_file || std::filesystem::file_size(path, error) > kLongest) return;
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  refuse_lfs_pointer(path, text);
}

}  // namespace phalanx
