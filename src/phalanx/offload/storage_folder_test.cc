#include "phalanx/offload/storage_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>

#include <array>
#include <fstream>
#include <optional>
#include <thread>

#include "phalanx/base/file_lock.h"
#include "phalanx/offload/storage_test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kFlag = "--offload-optimizer-to";

void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

// A process that has claimed a folder, put a file there, and waits to be killed.
class Claimant {
 public:
  Claimant(const fs::path& directory, const std::string& run, int rank) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const StorageFolder folder(directory, run, rank, kFlag);
      put(folder.path() / "optimizer.state", std::string(100000, 'x'));
      [[maybe_unused]] const auto put_one = ::write(ready[1], "x", 1);
      ::pause();
    }
    char one = 0;
    EXPECT_EQ(::read(ready[0], &one, 1), 1);
    for (const int end : ready) ::close(end);
  }
  Claimant(const Claimant&) = delete;
  Claimant& operator=(const Claimant&) = delete;
  ~Claimant() { kill(); }
  void kill() {
    if (process_ == 0) return;
    ::kill(std::exchange(process_, 0), SIGKILL);
    ::waitpid(-1, nullptr, 0);
  }

 private:
  pid_t process_ = 0;
};

class StorageFolderTest : public testing::Test {
 protected:
  StorageFolderTest() { set_log_level(LogLevel::kError); }
  std::string refusal(const fs::path& directory) const {
    return message_of<OutputError>([&] { const StorageFolder folder(directory, "a", 0, kFlag); });
  }

  TestDirectory base_;
  fs::path directory_ = base_.path() / "nvme";
};

TEST_F(StorageFolderTest, RanksAndRunsShareADirectoryThatIsAsFoundInTheEnd) {
  {
    const StorageFolder first(directory_, "run-1", 0, kFlag);
    EXPECT_EQ(first.path(), directory_ / "phalanx-run-1" / "rank-0000");
    EXPECT_TRUE(first.is_first());
    put(first.path() / "optimizer.state", "x");
    {
      const StorageFolder other(directory_, "run-2", 0, kFlag);
      EXPECT_TRUE(other.is_first());
    }
    EXPECT_FALSE(fs::exists(directory_ / "phalanx-run-2"));
    const StorageFolder second(directory_, "run-1", 3, kFlag);
    EXPECT_FALSE(second.is_first());
    EXPECT_TRUE(fs::is_directory(directory_ / "phalanx-run-1" / "rank-0003"));
  }
  EXPECT_FALSE(fs::exists(directory_));
  // One that was there stays, and all that is in it.
  fs::create_directories(directory_ / "phalanx-of-a-user");
  put(directory_ / "notes", "");
  { const StorageFolder folder(directory_.string() + "/", "run-1", 0, kFlag); }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 2);
  fs::remove_all(directory_);
}

// The process that made the directory may not be the last one.
TEST_F(StorageFolderTest, TheLastOneOutRemovesTheDirectory) {
  std::optional<StorageFolder> first, second;
  first.emplace(directory_, "a", 0, kFlag);
  second.emplace(directory_, "b", 0, kFlag);
  first.reset();
  EXPECT_TRUE(fs::exists(directory_));
  second.reset();
  EXPECT_FALSE(fs::exists(directory_));
  // But not if it holds a user's files.
  first.emplace(directory_, "a", 0, kFlag);
  put(directory_ / "notes", "");
  first.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
  fs::remove_all(directory_);
}

TEST_F(StorageFolderTest, WhatAKilledRunHasLeftIsRemovedAndWhatLivesIsNot) {
  fs::create_directories(directory_);
  const Claimant living(directory_, "living", 0);
  {
    Claimant dead(directory_, "dead", 0);
    Claimant also_dead(directory_, "dead", 1);
    const Claimant of_the_same_run(directory_, "living", 7);
    dead.kill();
    also_dead.kill();
  }
  ASSERT_TRUE(fs::exists(directory_ / "phalanx-dead" / "rank-0001" / "optimizer.state"));
  std::optional<StorageFolder> folder;
  const std::string log =
      log_of(LogLevel::kInfo, [&] { folder.emplace(directory_, "new", 0, kFlag); });
  EXPECT_THAT(log, AllOf(HasSubstr(kFlag), HasSubstr("phalanx-dead, phalanx-living")));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  EXPECT_FALSE(fs::exists(directory_ / "phalanx-dead"));
  EXPECT_FALSE(fs::exists(directory_ / "phalanx-living" / "rank-0007"));
  EXPECT_TRUE(fs::exists(directory_ / "phalanx-living" / "rank-0000" / "optimizer.state"));
  EXPECT_THAT(log_of(LogLevel::kInfo, [&] { const StorageFolder x(directory_, "x", 0, kFlag); }),
              IsEmpty());
  folder.reset();
  const_cast<Claimant&>(living).kill();
  { const StorageFolder last(directory_, "last", 0, kFlag); }
  EXPECT_TRUE(fs::is_empty(directory_));
  fs::remove(directory_);
}

// A run that is restarted under the same name finds its folders free.
TEST_F(StorageFolderTest, AKilledRunsOwnFolderIsMadeAgain) {
  Claimant(directory_, "same", 2).kill();
  {
    const StorageFolder folder(directory_, "same", 2, kFlag);
    EXPECT_FALSE(fs::exists(folder.path() / "optimizer.state"));
  }
  EXPECT_FALSE(fs::exists(directory_));
}

TEST_F(StorageFolderTest, ARankThatLivesIsNotReplaced) {
  const StorageFolder folder(directory_, "a", 0, kFlag);
  put(folder.path() / "optimizer.state", "x");
  EXPECT_THAT(message_of<ErrorOf<ErrorCode::kTemporary>>(
                  [&] { const StorageFolder same(directory_, "a", 0, kFlag); }),
              AllOf(HasSubstr(kFlag), HasSubstr(folder.path().string()), HasSubstr("in use")));
  EXPECT_TRUE(fs::exists(folder.path() / "optimizer.state"));
}

TEST_F(StorageFolderTest, RefusesWithFlagAndPath) {
  put(base_.path() / "file", "x");
  EXPECT_THAT(refusal(base_.path() / "file"),
              AllOf(HasSubstr(kFlag), HasSubstr("/file: is not a directory")));
  fs::remove(base_.path() / "file");
  EXPECT_THAT(refusal(directory_ / "below"),
              AllOf(HasSubstr((directory_ / "below").string()), HasSubstr("make that first")));
  fs::create_symlink("nowhere", directory_);
  EXPECT_THAT(refusal(directory_), HasSubstr("is not a directory"));
  fs::remove(directory_);
}

TEST_F(StorageFolderTest, RefusesAReadOnlyFileSystem) {
  const int status = status_of_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", base_.path().c_str(), "tmpfs", MS_RDONLY, "size=1m") != 0) {
      ::_exit(77);
    }
    for (const auto& directory : {base_.path(), directory_}) {
      EXPECT_THAT(refusal(directory), AllOf(HasSubstr(kFlag), HasSubstr(directory.string()),
                                            HasSubstr("Read-only file system")));
    }
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_EQ(status, 0);
}

TEST_F(StorageFolderTest, RefusesADirectoryThatIsNotWritable) {
  fs::create_directories(directory_);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec |
                                  fs::perms::others_read | fs::perms::others_exec);
  const int status = status_of_child([&] {
    // Permissions do not hold for root.
    if (::getuid() == 0) {
      ASSERT_EQ(::setuid(65534), 0);
    }
    EXPECT_THAT(refusal(directory_), AllOf(HasSubstr(kFlag), HasSubstr(directory_.string()),
                                           HasSubstr("cannot be written: Permission denied")));
    EXPECT_THAT(refusal(directory_ / "below"), HasSubstr("cannot be written: Permission denied"));
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(directory_));
  fs::remove(directory_);
}

TEST_F(StorageFolderTest, SaysWhatIsNeededAndWhatIsFree) {
  const StorageFolder folder(directory_, "a", 0, kFlag);
  const std::int64_t free = folder.free_bytes();
  EXPECT_GT(free, 0);
  folder.expect_space(1);
  const std::string message =
      message_of<OutputError>([&] { folder.expect_space(std::int64_t{1} << 60); });
  EXPECT_THAT(message, AllOf(HasSubstr(kFlag), HasSubstr("1024 PiB are needed"),
                             HasSubstr("1152921504606846976"), Not(HasSubstr("\n"))));
}

// A file system in which only the kernel makes files (/proc) reports a missing directory.
TEST_F(StorageFolderTest, RefusesWhereNoFileCanBeMade) {
  for (const fs::path directory : {"/proc", "/proc/states", "/proc/self"}) {
    EXPECT_THAT(refusal(directory), AllOf(HasSubstr(kFlag), HasSubstr(directory.string()),
                                          HasSubstr("no file can be made there")));
  }
}

// Another process, which may be stopped, makes or removes folders meanwhile.
TEST_F(StorageFolderTest, WhoWaitsCanBeTold) {
  struct Told {};
  fs::create_directories(directory_);
  const fs::path guard = directory_ / ".phalanx-storage";
  const int descriptor = ::open(guard.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(try_lock(descriptor, 0), FileLock::kTaken);
  int polls = 0;
  EXPECT_THROW(StorageFolder(directory_, "a", 0, kFlag,
                             [&] {
                               if (++polls == 3) throw Told{};
                             }),
               Told);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
  ::close(descriptor);
  {
    const StorageFolder folder(directory_, "a", 0, kFlag, [] { throw Told{}; });
  }
  EXPECT_TRUE(fs::is_empty(directory_));
  fs::remove(directory_);
}

// The leftovers of a process that is killed after it made its run's folder and before its own; and
// similar files of a user.
TEST_F(StorageFolderTest, WhatIsNoRanksFolderKeepsNobody) {
  std::optional<StorageFolder> folder(std::in_place, directory_, "a", 0, kFlag);
  fs::create_directories(directory_ / "phalanx-killed");
  folder.reset();
  EXPECT_FALSE(fs::exists(directory_));
  folder.emplace(directory_, "a", 0, kFlag);
  put(directory_ / "phalanx-notes", "");
  folder.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
  fs::remove_all(directory_);
  folder.emplace(directory_, "a", 0, kFlag);
  fs::create_directories(directory_ / "phalanx-plans" / "of-a-user");
  folder.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
  fs::remove_all(directory_);
}

// Many processes make and remove folders at the same time, in a directory that does not exist at
// first, and some are killed: every folder has one owner at a time.
TEST_F(StorageFolderTest, ComingAndGoingAtOnceIsSafe) {
  constexpr int kProcesses = 4;
  constexpr int kThreads = 3;
  constexpr int kTimes = 25;
  const auto come_and_go = [&](int process, int thread) {
    for (int i = 0; i < kTimes; ++i) {
      const StorageFolder folder(directory_, "run-" + std::to_string(i % 2),
                                 process * kThreads + thread, kFlag);
      put(folder.path() / "x.state", "x");
      EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
    }
  };
  std::vector<pid_t> processes;
  for (int process = 0; process < kProcesses; ++process) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    try {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { come_and_go(process, i); });
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  // One more process, which is killed at any place, again and again.
  for (int i = 0; i < kTimes; ++i) {
    const pid_t victim = ::fork();
    if (victim == 0) {
      while (true) const StorageFolder folder(directory_, "victim", 0, kFlag);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
  }
  for (const pid_t process : processes) {
    int status = 1;
    ::waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  { const StorageFolder last(directory_, "last", 0, kFlag); }
  // A process that is killed after it made the directory and before it recorded that leaves it
  // empty.
  std::error_code error;
  EXPECT_TRUE(!fs::exists(directory_) || fs::is_empty(directory_));
  fs::remove(directory_, error);
}

}  // namespace
}  // namespace phalanx
