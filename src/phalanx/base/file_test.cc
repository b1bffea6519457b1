// Durable files, durable directories and the locks of open files.

#include "phalanx/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/base/failing_calls.h"
#include "phalanx/base/file_lock.h"
#include "phalanx/base/test_support.h"
#include "phalanx/base/unique_name.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::FailingCalls;

class FileTest : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_ / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  const TemporaryDirectory temporary_{"file"};
  const fs::path directory_ = temporary_.path();
};

template <typename Action>
std::string output_error_of(Action action) {
  return error_of<OutputError>([&] { action(); });
}

TEST_F(FileTest, CommitMakesTheFileAppear) {
  {
    DurableFile file(path("a"));
    file.write("left behind");
  }
  EXPECT_THAT(names(), ElementsAre());
  DurableFile file(path("a"));
  file.write("whole");
  EXPECT_THAT(names(), ElementsAre(StartsWith("a.tmp.")));
  file.commit();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(read_file(path("a")), "whole");
}

TEST_F(FileTest, TwoWritersOfOnePathDoNotConflict) {
  DurableFile first(path("a"));
  first.write("first");
  DurableFile second(path("a"));
  second.write("second");
  EXPECT_EQ(names().size(), 2U);
  first.commit();
  EXPECT_EQ(read_file(path("a")), "first");
  second.commit();
  EXPECT_EQ(read_file(path("a")), "second");
  EXPECT_THAT(names(), ElementsAre("a"));
}

// A link under the predictable old temporary name must not redirect the write.
TEST_F(FileTest, ALinkUnderTheOldTemporaryNameIsNotFollowed) {
  write_file_durably(path("precious"), "precious");
  fs::create_symlink(path("precious"), path("a.tmp"));
  write_file_durably(path("a"), "new");
  EXPECT_EQ(read_file(path("precious")), "precious");
  EXPECT_EQ(read_file(path("a")), "new");
}

TEST_F(FileTest, RemovesTheFileOfAKilledWriter) {
  const pid_t child = ::fork();
  if (child == 0) {
    DurableFile file(path("a"));
    file.write("half");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(names(), ElementsAre(StartsWith("a.tmp.")));
  write_file_durably(path("b"), "another's");
  EXPECT_EQ(names().size(), 2U);
  fs::create_directory(path("a.tmp.0123456789abcdef"));
  std::ofstream(path("a.tmp.kept")) << "not ours";
  write_file_durably(path("a"), "whole");
  EXPECT_THAT(names(), ElementsAre("a", "a.tmp.0123456789abcdef", "a.tmp.kept", "b"));
}

TEST_F(FileTest, EveryFailingCallThrowsAnError) {
  write_file_durably(path("a"), "old");
  for (int at = 0;; ++at) {
    FailingCalls calls(FailingCalls::What::kFail, at, ENOSPC);
    const auto message = output_error_of([&] { write_file_durably(path("a"), "new"); });
    if (calls.count() <= at) break;
    SCOPED_TRACE(calls.names().back());
    EXPECT_THAT(message, AllOf(HasSubstr(path("a").parent_path().string()),
                               HasSubstr("No space left on device")));
    EXPECT_THAT(names(), ElementsAre("a"));
  }
  EXPECT_EQ(read_file(path("a")), "new");
}

TEST_F(FileTest, ContinuesAfterShortAndInterruptedWrites) {
  FailingCalls calls(FailingCalls::What::kShortWrite);
  write_file_durably(path("a"), "whole");
  EXPECT_EQ(read_file(path("a")), "whole");
  EXPECT_GT(calls.count(), 5);
}

TEST_F(FileTest, AcceptsFileSystemsWithoutDirectorySync) {
  FailingCalls calls(FailingCalls::What::kFail, 0, EINVAL);
  calls.only({"fsync"});
  EXPECT_NO_THROW(sync_directory(path(".")));
  EXPECT_EQ(calls.count(), 1);
}

// --- Directories

TEST_F(FileTest, EveryNewDirectoryIsSyncedIntoItsParent) {
  const std::string top = path("").parent_path().string();
  for (const auto* name : {"a/b/c", "d/e/"}) {
    FailingCalls calls(FailingCalls::What::kCount);
    create_directories_durably(path(name));
    EXPECT_TRUE(fs::is_directory(path(name)));
    const std::string first(1, name[0]);
    EXPECT_THAT(calls.names(), AllOf(testing::Contains("mkdir"), testing::Contains("fsync")));
    std::vector<std::string> expected = {top, top + "/" + first};
    if (first == "a") expected.push_back(top + "/a/b");
    EXPECT_EQ(calls.synced(), expected);
  }
  // An existing directory may come from a process that was killed before its sync.
  FailingCalls calls(FailingCalls::What::kCount);
  create_directories_durably(path("a/b/c"));
  EXPECT_THAT(calls.synced(), ElementsAre(top + "/a/b"));
  create_directories_durably(path("a/x"));
  EXPECT_THAT(calls.synced(), ElementsAre(top + "/a/b", top + "/a"));
}

TEST_F(FileTest, NamesTheFileInPlaceOfADirectory) {
  write_file_durably(path("file"), "");
  const auto message = [&](const std::string& name) {
    return output_error_of([&] { create_directories_durably(path(name)); });
  };
  EXPECT_THAT(message("file"), HasSubstr("file: is not a directory"));
  EXPECT_THAT(message("file/a"), AllOf(HasSubstr("file/a"), HasSubstr("Not a directory")));
  fs::create_symlink("nowhere", path("link"));
  EXPECT_THAT(message("link"), HasSubstr("link: is a link to nowhere, which is not there"));
  EXPECT_THAT(message("link/a"), HasSubstr("link: is a link to nowhere"));
  fs::create_directory(path("nowhere"));
  EXPECT_EQ(message("link/a"), "no error");
  EXPECT_TRUE(fs::is_directory(path("nowhere/a")));
}

// --- Locks

TEST_F(FileTest, ALockBelongsToTheOpenFile) {
  const auto open_file = [&] {
    return ::open(path("l").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  };
  const int first = open_file();
  const int second = open_file();
  EXPECT_EQ(try_lock(first, 0), FileLock::kTaken);
  EXPECT_EQ(try_lock(first, 0), FileLock::kTaken);
  EXPECT_EQ(try_lock(second, 0), FileLock::kHeld);
  EXPECT_EQ(try_lock(second, 1), FileLock::kTaken);
  EXPECT_TRUE(is_locked(first, 1));
  EXPECT_FALSE(is_locked(first, 0));
  // Closing another descriptor of the file keeps this lock, unlike a plain POSIX lock.
  ::close(open_file());
  EXPECT_EQ(try_lock(second, 0), FileLock::kHeld);
  ::close(first);
  EXPECT_EQ(try_lock(second, 0), FileLock::kTaken);
  ::close(second);
  EXPECT_EQ(try_lock(second, 0), FileLock::kFailed);
}

TEST(UniqueName, Digits) {
  EXPECT_NE(random_digits(16), random_digits(16));
  EXPECT_EQ(random_digits(32).size(), 32U);
  EXPECT_TRUE(is_unique_name("a.tmp." + random_digits(kUniqueDigits), "a.tmp."));
  EXPECT_FALSE(is_unique_name("a.tmp.", "a.tmp."));
  EXPECT_FALSE(is_unique_name("b.tmp.0123456789abcdef", "a.tmp."));
  EXPECT_FALSE(is_unique_name("a.tmp.0123456789abcdeg", "a.tmp."));
}

}  // namespace
}  // namespace phalanx
