#include "phalanx/base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace phalanx {
namespace {

TEST(RunParallel, EveryCallIsMadeOnce) {
  for (const int threads : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> calls(20);
    run_parallel(calls.size(), threads, [&](std::size_t i) { ++calls[i]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1) << threads << " threads";
  }
  run_parallel(0, 4, [](std::size_t) { FAIL(); });
}

TEST(RunParallel, ThrowsTheFirstFailureAfterAllCalls) {
  std::atomic<int> done = 0;
  std::string message;
  try {
    run_parallel(20, 4, [&](std::size_t i) {
      ++done;
      if (i % 7 == 3) throw std::runtime_error(std::to_string(i));
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "3");
  EXPECT_EQ(done, 20);
}

TEST(RunParallel, WorksWithoutRefusedThreads) {
  int started = 0;
  const ThreadStarter refuse = [&](std::function<void()> body) -> std::jthread {
    if (++started > 1) throw std::system_error(EAGAIN, std::generic_category());
    return start_thread(std::move(body));
  };
  std::atomic<int> done = 0;
  run_parallel(
      20, 8, [&](std::size_t) { ++done; }, refuse);
  EXPECT_EQ(done, 20);
  EXPECT_EQ(started, 2);
}

}  // namespace
}  // namespace phalanx
