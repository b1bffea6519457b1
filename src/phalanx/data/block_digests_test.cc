#include "phalanx/data/block_digests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::int64_t kMiB = 1 << 20;

class BlockDigestsTest : public ::testing::Test {
 protected:
  // Zeros but for a byte here and there: a sparse file of 40 MiB has three blocks.
  std::string file(std::int64_t bytes = 40 * kMiB) {
    const std::string path = directory_ / "d.bin";
    put_file(path, "begin");
    fs::resize_file(path, static_cast<std::uintmax_t>(bytes));
    return path;
  }
  static void change(const std::string& path, std::int64_t byte) {
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(byte);
    stream.put('x');
  }
  std::int64_t cached_files() const {
    return std::distance(fs::directory_iterator(directory_ / "cache"), {});
  }
  TemporaryDirectory directory_;
};

TEST_F(BlockDigestsTest, BlocksAreThoseOfTheFile) {
  EXPECT_EQ(digest_block_bytes(0), 16 * kMiB);
  EXPECT_EQ(digest_block_bytes(65536 * kMiB), 16 * kMiB);
  EXPECT_EQ(digest_block_bytes(65536 * kMiB + 1), 32 * kMiB);
  EXPECT_EQ(digest_block_bytes(std::int64_t{1} << 40), 256 * kMiB);

  const std::string path = file();
  const auto digests = block_digests_of(path);
  ASSERT_THAT(digests.digests, SizeIs(3));
  EXPECT_TRUE(digests.is_complete());
  const std::string text = read_file(path);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(digests.digests[i], xxh3(std::string_view(text).substr(i * 16 * kMiB, 16 * kMiB)));
  }
  EXPECT_EQ(byte_range(digests, 2), "bytes 33,554,432 to 41,943,039");
  EXPECT_TRUE(block_digests_of(file(0)).is_complete());
}

TEST_F(BlockDigestsTest, AChangedByteIsInItsBlock) {
  const std::string path = file();
  const auto before = block_digests_of(path);
  EXPECT_FALSE(differing_block(before, before));
  change(path, 16 * kMiB + 5);
  const auto after = block_digests_of(path);
  EXPECT_EQ(differing_block(before, after), 1);
  auto first = before;
  first.digests.resize(1);
  EXPECT_FALSE(first.is_complete());
  EXPECT_FALSE(differing_block(first, after));
  first.block_bytes *= 2;
  EXPECT_FALSE(differing_block(first, after));
}

TEST_F(BlockDigestsTest, ACacheKnowsAFileByItsIdentity) {
  const IndexCache cache(directory_ / "cache");
  const std::string path = file();
  const auto digests = block_digests_of(path);
  keep_block_digests(cache, identity_of_file(path), digests);
  EXPECT_EQ(find_block_digests(cache, identity_of_file(path)), digests);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_FALSE(find_block_digests(cache, identity_of_file(path)));
  auto part = digests;
  part.digests.pop_back();
  keep_block_digests(cache, identity_of_file(path), part);
  EXPECT_FALSE(find_block_digests(cache, identity_of_file(path)));
}

TEST_F(BlockDigestsTest, AThreadTakesThemAndKeepsThem) {
  const IndexCache cache(directory_ / "cache");
  const std::string path = file();
  const auto expected = block_digests_of(path);
  DigestThread thread({{.path = path, .expected = expected}}, &cache);
  thread.wait();
  EXPECT_THAT(thread.digests(), ::testing::ElementsAre(expected));
  EXPECT_FALSE(thread.difference());
  EXPECT_EQ(cached_files(), 1);
  // Known at once.
  const DigestThread again({{.path = path, .expected = {}}}, &cache);
  EXPECT_THAT(again.digests(), ::testing::ElementsAre(expected));
}

TEST_F(BlockDigestsTest, ASmallFileIsKnownAtOnce) {
  const std::string path = file(20 * kMiB);
  const DigestThread thread({{.path = path, .expected = {}}}, nullptr);
  EXPECT_THAT(thread.digests(), ::testing::ElementsAre(block_digests_of(path)));
}

TEST_F(BlockDigestsTest, ADifferenceIsTold) {
  for (const std::int64_t bytes : {20 * kMiB, 33 * kMiB}) {
    const std::string path = file(bytes);
    auto expected = block_digests_of(path);
    expected.digests[1] ^= 1;
    DigestThread thread({{.path = path, .expected = {}}, {.path = path, .expected = expected}},
                        nullptr);
    thread.wait();
    ASSERT_TRUE(thread.difference());
    EXPECT_EQ(thread.difference()->file, 1U);
    EXPECT_EQ(thread.difference()->block, 1);
  }
}

TEST_F(BlockDigestsTest, ItStopsInTheMiddle) {
  const IndexCache cache(directory_ / "cache");
  const std::string path = file(4096 * kMiB);  // half a minute
  {
    const DigestThread thread({{.path = path, .expected = {}}}, &cache);
    EXPECT_LT(std::ssize(thread.digests()[0].digests), 256);
  }
  EXPECT_FALSE(fs::exists(directory_ / "cache"));
}

TEST_F(BlockDigestsTest, AFileThatChangesMeanwhileIsAWarning) {
  const std::string path = file();
  ::testing::internal::CaptureStderr();
  DigestThread thread({{.path = path, .expected = {}}}, nullptr);
  fs::resize_file(path, 1000);
  thread.wait();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AnyOf(HasSubstr("of its blocks end after"), HasSubstr("it changed while")));
  EXPECT_FALSE(thread.digests()[0].is_complete());
}

}  // namespace
}  // namespace phalanx
