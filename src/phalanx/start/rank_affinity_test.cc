#include "phalanx/start/rank_affinity.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "phalanx/base/cpu_affinity.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

RankAffinity affinity(int cores, int ranks, int threads, int limit = 1024,
                      const OpenMpPlaces& openmp = {}, bool off = false) {
  std::vector<int> usable(static_cast<std::size_t>(cores));
  std::iota(usable.begin(), usable.end(), 0);
  LayoutConfig layout;
  layout.world_size = ranks;
  layout.threads_per_rank = threads;
  layout.no_cpu_affinity = off;
  return rank_affinity(layout, usable, limit, openmp);
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
  expect_none(affinity(64, 2, 32, 64, {"OMP_PROC_BIND", {}, ""}), "OMP_PROC_BIND names no");
  expect_none(affinity(64, 2, 32, 64, {"OMP_PLACES", {}, "no libgomp"}),
              "OMP_PLACES is set, and no libgomp");
  expect_none(affinity(64, 2, 32, 64, {}, true), "--no-cpu-affinity");
  expect_none(affinity(0, 2, 1), "more threads than cores");
}

TEST(RankAffinity, PlacesOfOpenMpAreDealtToThreadsInOrder) {
  const OpenMpPlaces openmp{"OMP_PLACES", {{0, 1}, {2, 3}, {8}}, ""};
  EXPECT_EQ(affinity(64, 2, 2, 64, openmp).text, "ranks on cores 0-3, 0-1,8 (OMP_PLACES)");
  EXPECT_EQ(affinity(64, 2, 2, 64, openmp).places[1], (std::vector<std::vector<int>>{{8}, {0, 1}}));
  EXPECT_EQ(affinity(64, 1, 1, 64, openmp).text, "ranks on cores 0-1 (OMP_PLACES)");
}

// In a process of its own: the library reads its variables once.
TEST(RankAffinity, PlacesAreReadAsOpenMpReadsThem) {
  const std::vector<int> usable = cores_of_thread();
  const auto tell_places_with = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    const OpenMpPlaces read = openmp_places();
    fmt::print(stderr, "{} {} on {} cores {}\n", read.variable, read.places,
               cores_of_thread().size(), read.fault);
    std::_Exit(0);
  };
  const int core = *std::ranges::min_element(usable);
  EXPECT_EXIT(tell_places_with("OMP_PLACES", fmt::format("{{{}}}", core)),
              testing::ExitedWithCode(0),
              HasSubstr(fmt::format("OMP_PLACES [[{}]] on {} cores", core, usable.size())));
  EXPECT_EXIT(tell_places_with("OMP_PROC_BIND", "false"), testing::ExitedWithCode(0),
              HasSubstr(fmt::format("OMP_PROC_BIND [] on {} cores", usable.size())));
}

TEST(RankAffinity, VariablesThatChangeNothingAreNamed) {
  const auto names = {"OMP_WAIT_POLICY", "OMP_NUM_THREADS", "OMP_PLACES", "KMP_BLOCKTIME"};
  for (const char* name : names) ::setenv(name, "1", 1);
  const std::vector<std::string> unused = unused_openmp_variables();
  for (const char* name : names) ::unsetenv(name);
  EXPECT_THAT(unused, testing::IsSupersetOf({"KMP_BLOCKTIME", "OMP_WAIT_POLICY"}));
  EXPECT_THAT(unused, testing::Not(testing::Contains("OMP_PLACES")));
  EXPECT_THAT(unused, testing::Not(testing::Contains("OMP_NUM_THREADS")));
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
