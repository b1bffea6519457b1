#include "phalanx/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

constexpr std::size_t kPage = 4096;

class MappedFileTest : public testing::Test {
 protected:
  std::filesystem::path make(const std::string& name) const {
    std::ofstream(directory_ / name) << std::string(4 * kPage, 'x');
    return directory_ / name;
  }

  const TemporaryDirectory temporary_{"mapped"};
  const std::filesystem::path directory_ = temporary_.path();
};

int sum_of(const MappedFile& file) {
  int sum = 0;
  for (const std::byte value : file.bytes()) sum += static_cast<int>(value);
  return sum;
}

TEST_F(MappedFileTest, ATruncatedFileEndsTheProcessWithItsName) {
  const auto path = make("data.bin");
  const auto read_truncated = [&] {
    report_unreadable_maps();
    const MappedFile other(make("other.bin"));
    MappedFile first(path);
    const MappedFile file = std::move(first);
    std::filesystem::resize_file(path, kPage);
    int sum = 0;
    std::thread([&] { sum = sum_of(other) + sum_of(file); }).join();
    std::exit(sum == 0 ? 1 : 0);
  };
  EXPECT_EXIT(read_truncated(), testing::ExitedWithCode(74),
              "^error: .*/data\\.bin: cannot be read beyond byte [0-9]+ of 16384: .*");
}

// A blend of many datasets has two maps for each.
TEST_F(MappedFileTest, AnyNumberOfFilesIsKnown) {
  const auto path = make("data.bin");
  const auto whole = make("whole.bin");
  const auto read_last = [&] {
    report_unreadable_maps();
    std::vector<MappedFile> files;
    for (int i = 0; i < 1500; ++i) files.emplace_back(whole);
    files.emplace_back(path);
    files.erase(files.begin() + 200, files.begin() + 1400);
    for (int i = 0; i < 1500; ++i) files.emplace_back(whole);
    std::filesystem::resize_file(path, kPage);
    int sum = 0;
    for (const MappedFile& file : files) sum += sum_of(file);
    std::exit(sum == 0 ? 1 : 0);
  };
  EXPECT_EXIT(read_last(), testing::ExitedWithCode(74),
              "^error: .*/data\\.bin: cannot be read beyond byte [0-9]+ of 16384: .*");
}

TEST_F(MappedFileTest, ASignalOutsideMapsIsUnchanged) {
  const auto path = make("data.bin");
  const auto read_after_the_end = [&] {
    report_unreadable_maps();
    { const MappedFile gone(path); }
    // A map that is not in the table, perhaps at the address of an earlier one.
    std::FILE* file = std::fopen(path.c_str(), "r");
    auto* bytes = static_cast<volatile char*>(
        ::mmap(nullptr, 4 * kPage, PROT_READ, MAP_PRIVATE, ::fileno(file), 0));
    std::filesystem::resize_file(path, 0);
    std::exit(bytes[0]);
  };
  EXPECT_EXIT(read_after_the_end(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace phalanx
