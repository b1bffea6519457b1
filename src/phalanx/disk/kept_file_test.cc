// Writes files that stay: with every engine, past the page cache and through it, with engines that
// move little or fail.

#include "phalanx/disk/kept_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cerrno>

#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/test_support.h"
#include "phalanx/disk/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kBlock = 2 * kStorageAlignment;

struct Place {
  StorageEngine engine = StorageEngine::kAutomatic;
  bool in_memory = false;
  bool direct = true;
  friend void PrintTo(const Place& place, std::ostream* out) {
    *out << name_of(place.engine) << (place.in_memory ? " in memory" : " on disk")
         << (place.direct ? " direct" : " buffered");
  }
};

StorageOptions small(StorageEngine engine, bool direct) {
  return {
      .engine = engine, .block_bytes = kBlock, .queue_depth = 3, .threads = 2, .direct = direct};
}

std::vector<std::byte> bytes_of(std::int64_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  fill(bytes, seed);
  return bytes;
}

std::vector<std::uint64_t> digests_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> digests;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(kBlock, bytes.size()))) {
    digests.push_back(xxh3(bytes.first(std::min<std::size_t>(kBlock, bytes.size()))));
  }
  return digests;
}

class KeptFileTest : public testing::TestWithParam<Place> {
 protected:
  KeptFileTest()
      : directory_((GetParam().in_memory ? memory_disk() : disk()) /
                   ("phalanx_kept_file_" + std::to_string(::getpid()))) {
    fs::create_directories(directory_);
  }
  ~KeptFileTest() override { fs::remove_all(directory_); }

  StorageOptions options() const { return small(GetParam().engine, GetParam().direct); }
  fs::path path() const { return directory_ / "part-00000.bin"; }

  // With requests and completions that the test changes.
  EngineMaker altered(const std::function<void(BlockRequest&)>& on_submit,
                      const std::function<void(BlockCompletion&)>& on_completion = {}) const {
    return [=](const StorageOptions& given, std::span<std::byte> buffers) {
      auto engine = std::make_unique<AlteringEngine>(make_engine(given, buffers));
      if (on_submit) engine->on_submit = on_submit;
      if (on_completion) engine->on_completion = on_completion;
      return engine;
    };
  }

  fs::path directory_;
};

TEST_P(KeptFileTest, FilesOfAnyLengthHoldWhatWasWritten) {
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, kStorageAlignment, kBlock, kBlock + 1, 7 * kBlock - 3}) {
    SCOPED_TRACE(bytes);
    const auto content = bytes_of(bytes, 3);
    std::vector<std::uint64_t> digests;
    {
      KeptFile file(path(), bytes, options());
      // In pieces that are no blocks.
      for (std::size_t at = 0; at < content.size(); at += 5000) {
        file.write(
            std::span(content).subspan(at, std::min<std::size_t>(5000, content.size() - at)));
      }
      digests = file.finish();
    }
    const std::string read = read_file(path());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(read)), content));
    EXPECT_EQ(digests, digests_of(content));
    struct stat status {};
    ASSERT_EQ(::stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0644U & ~::umask(::umask(0)));
    fs::remove(path());
    EXPECT_TRUE(fs::is_empty(directory_));
  }
}

TEST_P(KeptFileTest, WhatMovesInPartGoesOn) {
  const auto content = bytes_of(5 * kBlock + 100, 4);
  int shortened = 0;
  KeptFile file(path(), std::ssize(content), options(), altered([&](BlockRequest& request) {
                  if (request.bytes > kStorageAlignment && ++shortened % 2 == 0) {
                    request.bytes = kStorageAlignment;
                  }
                }));
  file.write(content);
  EXPECT_EQ(file.finish(), digests_of(content));
  const std::string read = read_file(path());
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(read)), content));
  EXPECT_GT(shortened, 1);
}

TEST_P(KeptFileTest, AFailureIsAnErrorWithPathAndPlaceAndTheFileGoes) {
  const auto content = bytes_of(6 * kBlock, 5);
  for (const int error : {EIO, ENOSPC}) {
    EXPECT_THAT(error_of<OutputError>([&] {
                  int done = 0;
                  KeptFile file(path(), std::ssize(content), options(),
                                altered({}, [&](BlockCompletion& completion) {
                                  if (++done == 3) completion.result = -error;
                                }));
                  file.write(content);
                  file.finish();
                }),
                AllOf(HasSubstr(path().string()), HasSubstr("cannot write 8192 bytes at offset"),
                      HasSubstr(std::strerror(error))));
    EXPECT_TRUE(fs::is_empty(directory_));
  }
}

TEST_P(KeptFileTest, WhatIsNotFinishedGoes) {
  {
    KeptFile file(path(), 3 * kBlock, options());
    file.write(bytes_of(2 * kBlock + 5, 6));
    EXPECT_THAT(error_of<InternalError>([&] { file.finish(); }), HasSubstr("of 24576 bytes"));
  }
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_P(KeptFileTest, AFileThatIsThereIsRefusedAndStays) {
  put_file(path(), "older");
  EXPECT_THAT(error_of<OutputError>([&] { KeptFile file(path(), kBlock, options()); }),
              AllOf(HasSubstr(path().string()), HasSubstr("cannot create")));
  EXPECT_EQ(read_file(path()), "older");
}

TEST_P(KeptFileTest, ADiskWithoutTheSpaceIsRefusedAtOnce) {
  const std::int64_t too_much = std::int64_t{1} << 60;
  EXPECT_THAT(error_of<OutputError>([&] { KeptFile file(path(), too_much, options()); }),
              AllOf(HasSubstr(path().string()), HasSubstr("cannot reserve")));
  EXPECT_TRUE(fs::is_empty(directory_));
}

constexpr Place kPlaces[] = {
    {StorageEngine::kIoUring, false, true},  {StorageEngine::kIoUring, false, false},
    {StorageEngine::kIoUring, true, true},   {StorageEngine::kThreads, false, true},
    {StorageEngine::kThreads, false, false}, {StorageEngine::kThreads, true, true}};
INSTANTIATE_TEST_SUITE_P(All, KeptFileTest, testing::ValuesIn(kPlaces));

}  // namespace
}  // namespace phalanx
