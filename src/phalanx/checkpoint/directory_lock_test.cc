#include "phalanx/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <thread>

#include "phalanx/base/file_lock.h"
#include "phalanx/checkpoint/checkpoint_fixture.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class DirectoryLockTest : public testing::Test {
 protected:
  fs::path save() const { return directory_.path() / "save"; }
  std::string refusal() const {
    try {
      const DirectoryLock lock(save());
    } catch (const DirectoryInUseError& error) {
      EXPECT_EQ(error.exit_status(), 75);
      return error.what();
    }
    return "not refused";
  }

 private:
  TemporaryDirectory directory_{"lock"};
};

std::string this_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

TEST_F(DirectoryLockTest, TwoRunsOfOneProcess) {
  std::optional<DirectoryLock> lock(save());
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("--save " + save().string() + " is in use by process " +
                              std::to_string(::getpid()) + " on host " + this_host() + " since"),
                    MatchesRegex(".* since [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z: wait.*")));
  // Neither the refused one nor a reader of the file has let go of it.
  read_file(save() / kLockName);
  EXPECT_THAT(refusal(), HasSubstr("in use"));
  DirectoryLock moved(std::move(*lock));
  lock.reset();
  EXPECT_THAT(refusal(), HasSubstr("in use"));
  {
    const DirectoryLock taken = std::move(moved);
    EXPECT_THAT(refusal(), HasSubstr("in use"));
  }
  EXPECT_EQ(refusal(), "not refused");
}

TEST_F(DirectoryLockTest, TheFlagIsNamed) {
  const DirectoryLock lock(save(), "--output");
  EXPECT_THAT(error_of([&] { const DirectoryLock second(save(), "--output"); }),
              HasSubstr("--output " + save().string() + " is in use"));
}

// A process that holds the lock until it is killed.
class Holder {
 public:
  explicit Holder(const fs::path& directory) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const DirectoryLock lock(directory);
      const ssize_t told = ::write(ready[1], "x", 1);
      for (;;) ::pause();
      ::_exit(static_cast<int>(told));
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { kill(); }
  pid_t process() const { return process_; }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

TEST_F(DirectoryLockTest, TwoProcesses) {
  Holder holder(save());
  EXPECT_THAT(refusal(), HasSubstr("process " + std::to_string(holder.process()) + " on host"));
  holder.kill();
  // The kernel has let go of it; what the dead one wrote is nobody's word any more.
  EXPECT_EQ(refusal(), "not refused");
  const DirectoryLock lock(save());
  EXPECT_THAT(refusal(), HasSubstr("process " + std::to_string(::getpid()) + " on host"));
}

// A holder that has not yet written its text: what stands there is of the one before.
TEST_F(DirectoryLockTest, ATextThatIsNotTheHoldersIsNotBelieved) {
  { const DirectoryLock before(save()); }
  EXPECT_THAT(read_file(save() / kLockName), HasSubstr(std::to_string(::getpid())));
  const int descriptor = ::open((save() / kLockName).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(try_lock(descriptor, 0), FileLock::kTaken);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("a process that just began"), Not(HasSubstr("on host"))));
  // One that ends meanwhile is waited for.
  std::jthread ending([descriptor] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::close(descriptor);
  });
  EXPECT_EQ(refusal(), "not refused");
}

TEST_F(DirectoryLockTest, AnyTextIsRefusedClearly) {
  const DirectoryLock lock(save());
  for (const std::string_view text :
       {"", "{", "[]", "{\"pid\": -1}", "{\"host\": 1, \"pid\": 2, \"started\": 3}"}) {
    std::ofstream(save() / kLockName) << text;
    EXPECT_THAT(refusal(), HasSubstr("a process that does not say which")) << text;
  }
  std::ofstream(save() / kLockName) << R"({"host": "a\u001b[2J\nb", "pid": 7, "started": "now"})";
  EXPECT_THAT(refusal(), HasSubstr(R"(process 7 on host a\u001b[2J\nb since now)"));
}

TEST_F(DirectoryLockTest, WhatCannotBeLockedIsNamed) {
  fs::create_directories(save());
  put_file(save() / "file", "x");
  fs::create_symlink(save() / "file", save() / kLockName);
  EXPECT_THAT(error_of([&] { const DirectoryLock lock(save()); }),
              HasSubstr(".lock: cannot open the lock file: it is a link"));
  EXPECT_EQ(read_file(save() / "file"), "x");
  EXPECT_THROW(DirectoryLock(save() / "file"), OutputError);
  fs::remove(save() / kLockName);
  fs::create_directory(save() / kLockName);
  EXPECT_THROW(DirectoryLock{save()}, OutputError);
}

// The file stays, and saves leave it alone.
TEST_F(DirectoryLockTest, SavesWorkUnderTheLock) {
  { const DirectoryLock lock(save()); }
  const DirectoryLock lock(save());
  save_checkpoint({.directory = save()}, example_manifest(1), TinyModel().all());
  EXPECT_TRUE(fs::exists(save() / kLockName));
  EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1);
}

// The path leads elsewhere while the lock is held.
TEST_F(DirectoryLockTest, ADirectoryThatIsMovedOrRemovedIsLost) {
  const auto message = [](const DirectoryLock& lock) -> std::string {
    try {
      lock.expect_in_place();
    } catch (const DirectoryLostError& error) {
      EXPECT_EQ(error.exit_status(), 74);
      return error.what();
    }
    return "in place";
  };
  const fs::path moved = save().string() + "-moved";
  std::optional<DirectoryLock> lock(save());
  EXPECT_EQ(message(*lock), "in place");
  fs::rename(save(), moved);
  EXPECT_THAT(message(*lock), HasSubstr("--save " + save().string()));
  {
    const DirectoryLock another(save());
    EXPECT_THAT(message(*lock), HasSubstr("moved, removed or replaced"));
    EXPECT_EQ(message(another), "in place");
  }
  fs::remove_all(save());
  fs::rename(moved, save());
  EXPECT_EQ(message(*lock), "in place");
  // Also of a lock that has changed hands.
  DirectoryLock taken(std::move(*lock));
  lock.reset();
  fs::remove(save() / kLockName);
  EXPECT_THAT(message(taken), HasSubstr(std::string(kLockName)));
  fs::create_symlink("elsewhere", save() / kLockName);
  EXPECT_THAT(message(taken), HasSubstr(std::string(kLockName)));
}

}  // namespace
}  // namespace phalanx
