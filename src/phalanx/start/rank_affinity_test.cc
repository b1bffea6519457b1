#include "phalanx/start/rank_affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "phalanx/base/cpu_affinity.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

RankAffinity affinity(int cores, int ranks, int threads, int limit = 1024,
                      const std::string& variable = "", bool off = false) {
  std::vector<int> usable(static_cast<std::size_t>(cores));
  std::iota(usable.begin(), usable.end(), 0);
  LayoutConfig layout;
  layout.world_size = ranks;
  layout.threads_per_rank = threads;
  layout.no_cpu_affinity = off;
  return rank_affinity(layout, usable, limit, variable);
}

TEST(RankAffinity, RanksThatShareAllCoresAreBound) {
  EXPECT_EQ(affinity(64, 2, 32).text, "ranks on cores 0-31, 32-63");
  EXPECT_EQ(affinity(64, 2, 32).cores.size(), 2U);
  EXPECT_EQ(affinity(64, 64, 1).text, "ranks on cores 0, 1, 2, 3, 4, 5, 6, ..., 63");
}

// Each case has its own reason, which is logged.
TEST(RankAffinity, OthersAreNot) {
  const auto expect_none = [](const RankAffinity& affinity, const char* reason) {
    EXPECT_TRUE(affinity.cores.empty());
    EXPECT_THAT(affinity.text, HasSubstr(reason));
  };
  expect_none(affinity(64, 1, 64), "one rank");
  expect_none(affinity(2, 1, 1), "one rank");
  expect_none(affinity(64, 2, 16), "leave cores to others");
  expect_none(affinity(64, 2, 64), "more threads than cores");
  expect_none(affinity(64, 2, 32, 8), "more threads than cores");  // a quota
  expect_none(affinity(64, 2, 32, 64, "OMP_PLACES"), "OMP_PLACES");
  expect_none(affinity(64, 2, 32, 64, "", true), "--no-cpu-affinity");
  expect_none(affinity(0, 2, 1), "more threads than cores");
}

TEST(RankAffinity, ARankTakesItsThreadToItsCores) {
  const std::vector<int> usable = cores_of_thread();
  if (usable.size() < 2) GTEST_SKIP() << "one core";
  const RankAffinity halves{.cores = {{usable.front()}, {usable.back()}}, .text = {}};
  std::jthread([&] {
    halves.bind(1);
    EXPECT_EQ(cores_of_thread(), std::vector{usable.back()});
  });
  EXPECT_EQ(cores_of_thread(), usable);
}

}  // namespace
}  // namespace phalanx
