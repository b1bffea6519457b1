#pragma once
// For the tests of this folder: files in a directory that goes away, and small datasets.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "phalanx_data_XXXXXX").string();
    PHALANX_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A new file each time: some file systems sync a file that is truncated and written again.
inline void write_text(const std::string& path, std::string_view text) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << text;
}

// The message of the error, which must have this code.
template <typename Function>
std::string error_of(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// One sequence a document, ids 0, 1, 2, ... through the whole file.
inline void write_counting_dataset(const std::string& prefix,
                                   const std::vector<std::int32_t>& lengths,
                                   TokenType type = TokenType::kI32) {
  IndexedDatasetWriter writer(prefix, type);
  std::int32_t next = 0;
  for (const auto length : lengths) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::iota(ids.begin(), ids.end(), next);
    next += length;
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit();
}

// The lengths behind the golden vectors of the indices: 70 tokens.
inline const std::vector<std::int32_t> kGoldenLengths{7, 3, 12, 5, 9, 4, 8, 6, 11, 5};

}  // namespace phalanx::testing
