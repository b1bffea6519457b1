#include "phalanx/checkpoint/input_file.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_directory.h"

namespace phalanx {
namespace {

constexpr std::size_t kLongestCopyName = 100;

std::int64_t length_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw InputMissingError("{}: no such file", path.string());
  }
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw IoError("{}: cannot be read: {}", path.string(), error.message());
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

bool is_copy_name(std::string_view name) {
  const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string plain;
  std::ranges::transform(name, std::back_inserter(plain), lower);
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  return !plain.empty() && plain.size() <= kLongestCopyName && plain.front() != '.' &&
         plain.find_first_not_of(kAllowed) == std::string::npos && plain != kManifestName &&
         !plain.ends_with(".safetensors") && plain.find(".tmp") == std::string::npos;
}

Manifest::InputFile describe_input_file(std::string flag, const std::filesystem::path& path) {
  const FileDigest digest = digest_file(path);
  return {.flag = std::move(flag),
          .path = path.string(),
          .bytes = digest.bytes,
          .xxh3 = digest.xxh3,
          .copy = {}};
}

Manifest::InputFile describe_input_length(std::string flag, const std::filesystem::path& path) {
  return {.flag = std::move(flag),
          .path = path.string(),
          .bytes = length_of(path),
          .xxh3 = std::nullopt,
          .copy = {}};
}

Manifest::InputFile describe_input_copy(std::string flag, const std::filesystem::path& path,
                                        const InputCopy& copy) {
  return {.flag = std::move(flag),
          .path = path.string(),
          .bytes = std::ssize(copy.bytes),
          .xxh3 = xxh3(copy.bytes),
          .copy = copy.name};
}

}  // namespace phalanx
