#include "phalanx/base/core_waits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(WaitedForCores, SumsWhatTheKernelSaysOfThreads) {
  const TemporaryDirectory root;
  for (const int thread : {7, 8, 9}) {
    std::filesystem::create_directories(root.path() / fmt::format("proc/self/task/{}", thread));
  }
  put_file(root.path() / "proc/self/task/7/schedstat", "1000 20 3\n");
  put_file(root.path() / "proc/self/task/8/schedstat", "5 400 1\n");
  EXPECT_EQ(waited_for_cores(std::array{7, 8}, root.path()), nanoseconds(420));
  EXPECT_EQ(waited_for_cores(std::array{7, 9}, root.path()), std::nullopt);
  EXPECT_EQ(waited_for_cores(std::array{10}, root.path()), std::nullopt);
}

// Steps of two threads, which wait for `each` of every step.
struct Steps {
  CoreWaits waits{};
  CoreWaits::Clock::time_point now{};
  nanoseconds waited{0};

  int told_of(int count, milliseconds length, milliseconds each) {
    int told = 0;
    for (int i = 0; i < count; ++i) {
      now += length;
      waited += each;
      const auto share = waits.after_step(now, 2, [this] { return waited; });
      if (!share) continue;
      ++told;
      EXPECT_NEAR(*share, 0.4, 0.1);
    }
    return told;
  }
};

TEST(CoreWaits, AreToldOnceWhereTheyLast) {
  Steps steps;
  EXPECT_EQ(steps.told_of(1, milliseconds(1000), milliseconds(60000)), 0);  // the start
  EXPECT_EQ(steps.told_of(100, milliseconds(1000), milliseconds(100)), 0);  // a twentieth
  EXPECT_EQ(steps.told_of(9, milliseconds(1000), milliseconds(800)), 0);    // not for long
  EXPECT_EQ(steps.told_of(20, milliseconds(1000), milliseconds(800)), 1);
  EXPECT_EQ(steps.told_of(1000, milliseconds(1000), milliseconds(800)), 0);
}

TEST(CoreWaits, AreNotToldOfAMoment) {
  Steps steps;
  EXPECT_EQ(steps.told_of(400, milliseconds(10), milliseconds(8)), 0);
  EXPECT_EQ(steps.told_of(200, milliseconds(10), milliseconds(8)), 1);
}

}  // namespace
}  // namespace phalanx
