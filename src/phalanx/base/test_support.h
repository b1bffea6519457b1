#pragma once
// What tests of all rooms share: the message of an error, and a directory for a test's files.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {

// The message of the E that the call throws, or "no error". Other exceptions pass through.
template <typename E = Error, typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

// The message of the error that the call must throw, with this code.
template <typename Call>
std::string error_of(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "no error";
}

// An empty directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view name = "test") {
    std::string path = std::filesystem::canonical(std::filesystem::temp_directory_path()) /
                       fmt::format("phalanx_{}_XXXXXX", name);
    PHALANX_CHECK(::mkdtemp(path.data()) != nullptr, "cannot make {}", path);
    path_ = path;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// As a new file: ext4 flushes one that is truncated and written again.
inline void put_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace phalanx
