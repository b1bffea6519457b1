#include "phalanx/start/process_runner.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/test_support.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// The pipe of standard error is full when the rank is ended, and is read then.
TEST(EndStuckRank, TheReasonIsReadByAReaderThatIsBehind) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    let_log_drop_lines();
    // As much as the pipe and the log take.
    for (int i = 0; i < 2000; ++i) log_info("{}", std::string(100, 'x'));
    end_stuck_rank({.rank = 1, .code = ErrorCode::kHang, .reason = "rank 1 hangs"});
  }
  ::close(ends[1]);
  ::usleep(50'000);  // a reader that is behind
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 124);
  EXPECT_THAT(text, HasSubstr("error: this rank does not leave, though rank 1 hangs: it is ended"));
}

// Where a launcher's variable is damaged, no other descriptor is read in its place.
TEST(ProcessRunner, TheDescriptorOfTheSecretIsANumber) {
  for (const char* const text : {"abc", "3x", " 3", "-1", "99999999999", "0x3"}) {
    ::setenv("PHALANX_RDZV_SECRET_FD", text, 1);
    LaunchEnvironment environment;
    RunConfig run;
    run.rdzv_insecure = true;
    EXPECT_THAT(error_of<UsageError>([&] {
                  make_process_runner(environment, run, std::chrono::milliseconds(1), [] {});
                }),
                HasSubstr("PHALANX_RDZV_SECRET_FD=" + std::string(text)));
  }
  ::unsetenv("PHALANX_RDZV_SECRET_FD");
}

}  // namespace
}  // namespace phalanx
