// A process that the kernel cannot end because it waits for a disk: SIGKILL has no effect, and the
// launcher ends without it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "phalanx/launch/test_support.h"

namespace {

std::atomic<bool>& kills() {
  static std::atomic<bool> value = true;
  return value;
}

}  // namespace

// Replaces the C library's function.
extern "C" int kill(pid_t pid, int signal) noexcept {
  if (signal == SIGKILL && !kills()) return 0;
  return static_cast<int>(::syscall(SYS_kill, pid, signal));
}

namespace phalanx::launch {
namespace {

using testing::HasSubstr;

TEST_F(LaunchTest, AProcessThatCannotBeEndedIsLeftBehind) {
  grace_ = std::chrono::milliseconds(50);
  kill_patience_ = std::chrono::milliseconds(50);
  options_.max_restarts = 3;
  kills() = false;
  const int status = run(2,
                         "if [ $RANK = 1 ]; then while [ ! -s " + here() +
                             "/pids ]; do sleep 0.01; done; exit 74; fi; trap '' TERM\n"
                             "echo $$ >" +
                             here() + "/pids; while :; do sleep 1; done",
                         {"pretrain", "--save", here() + "/save"});
  kills() = true;
  EXPECT_EQ(status, 74);
  const auto pids = numbers_in("pids");
  ASSERT_EQ(pids.size(), 1U);
  EXPECT_EQ(::kill(pids[0], 0), 0);
  ::kill(-pids[0], SIGKILL);
  ::waitpid(pids[0], nullptr, 0);
  EXPECT_EQ(summary()["attempts"], 1);
  const std::string console = read("console.err");
  EXPECT_THAT(console, HasSubstr("rank 0 (pid " + std::to_string(pids[0]) + ") cannot be ended"));
  EXPECT_THAT(console, HasSubstr("not started again: a process is left that cannot be ended"));
}

}  // namespace
}  // namespace phalanx::launch
