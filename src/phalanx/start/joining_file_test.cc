#include "phalanx/start/joining_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class JoiningFileTest : public testing::Test {
 protected:
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const TemporaryDirectory temporary_{"joining"};
  const fs::path directory_ = temporary_.path();
  const fs::path path_ = directory_ / JoiningFile::kName;
};

TEST_F(JoiningFileTest, IsSeenWhileItIsThere) {
  std::optional<JoiningFile> file(std::in_place, directory_);
  const std::string text = file->text();
  EXPECT_EQ(read(path_), text);
  EXPECT_TRUE(JoiningFile::is_seen(directory_, text, milliseconds(0)));
  EXPECT_FALSE(JoiningFile::is_seen(directory_, text + "0", milliseconds(0)));
  file.reset();
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_FALSE(JoiningFile::is_seen(directory_, text, milliseconds(0)));
}

TEST_F(JoiningFileTest, IsNotWrittenThroughALink) {
  const fs::path treasure = directory_ / "treasure";
  std::ofstream(treasure) << "gold";
  fs::create_symlink(treasure, path_);
  {
    const JoiningFile file(directory_);
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path_)));
  }
  EXPECT_EQ(read(treasure), "gold");
}

TEST_F(JoiningFileTest, IsNotReadThroughALinkNorWaitedForInAPipe) {
  const JoiningFile file(directory_);
  const fs::path other = directory_ / "other";
  fs::create_directory(other);
  fs::create_symlink(path_, other / JoiningFile::kName);
  EXPECT_FALSE(JoiningFile::is_seen(other, file.text(), milliseconds(0)));
  fs::remove(other / JoiningFile::kName);
  ASSERT_EQ(::mkfifo((other / JoiningFile::kName).c_str(), 0600), 0);
  EXPECT_FALSE(JoiningFile::is_seen(other, file.text(), milliseconds(0)));
}

TEST_F(JoiningFileTest, ReplacesWhatAKilledRunHasLeft) {
  std::ofstream(path_) << "an older one, which is longer than the text of any new one can be";
  const JoiningFile file(directory_);
  EXPECT_EQ(read(path_), file.text());
}

TEST_F(JoiningFileTest, ThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(error_of<OutputError>([&] { const JoiningFile file(directory_ / "nowhere"); }),
              testing::HasSubstr(".joining cannot be written: No such file"));
}

}  // namespace
}  // namespace phalanx
