#include "phalanx/base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace phalanx {
namespace {

// The log belongs to the process, so each test runs in its own process.
template <typename Body>
int status_of_process(const Body& body) {
  const int pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Log, ARunDoesNotWaitForItsReader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(status_of_process([&] {
              ::dup2(ends[1], STDERR_FILENO);
              let_log_drop_lines();
              for (int i = 0; i < 30000; ++i) log_info("a line of more than {} letters, {}", 40, i);
              if (!log_is_behind()) ::_exit(1);
              flush_log();
            }),
            0);
  std::array<char, 100> bytes{};
  const auto got = ::read(ends[0], bytes.data(), bytes.size());
  EXPECT_TRUE(std::string(bytes.data(), static_cast<std::size_t>(got))
                  .starts_with("a line of more than 40 letters, 0\na line"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Log, ARunWritesAtOnceToItsReader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(status_of_process([&] {
              ::dup2(ends[1], STDERR_FILENO);
              let_log_drop_lines();
              log_warning("one");
              if (log_is_behind()) ::_exit(1);
            }),
            0);
  std::array<char, 100> bytes{};
  const auto got = ::read(ends[0], bytes.data(), bytes.size());
  EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(got)), "warning: one\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace phalanx
