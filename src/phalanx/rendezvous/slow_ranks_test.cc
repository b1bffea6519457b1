#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "phalanx/rendezvous/detector_test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SlowWorld : public World {
 public:
  explicit SlowWorld(int ranks) : World({ranks}), own_seconds(heartbeats.size(), 0.1) {
    before_heartbeat = [this](int rank) {
      Heartbeat& heartbeat = heartbeats[rank];
      const double longest = *std::ranges::max_element(own_seconds);
      heartbeat.ticks += 10;
      heartbeat.iteration += 1;
      heartbeat.steps += 1;
      const auto noise = static_cast<double>((rank * 7 + heartbeat.steps * 13) % 10);
      const double jitter = 0.01 * own_seconds[rank] * noise;
      heartbeat.step_seconds += longest + jitter;
      heartbeat.waited_seconds += longest - own_seconds[rank];
    };
  }
  std::vector<double> own_seconds;
};

TEST(SlowRanks, NamedAfterThreeWindowsOnce) {
  SlowWorld world(4);
  ASSERT_FALSE(world.run(5));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
  world.own_seconds[2] = 0.15;
  ASSERT_FALSE(world.run(10));  // twenty steps
  const auto lines = world.detector->slow_ranks();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0],
              testing::MatchesRegex("rank 2 \\(host n01, pid 102\\) is slow: its own work takes "
                                    "1\\.[45][0-9] times the median of all ranks, 15[0-9.]+ ms a "
                                    "step"));
  ASSERT_FALSE(world.run(50));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
  // It is reported again only after it was as fast as the others.
  world.own_seconds[2] = 0.1;
  ASSERT_FALSE(world.run(10));
  world.own_seconds[2] = 0.15;
  ASSERT_FALSE(world.run(20));
  EXPECT_EQ(world.detector->slow_ranks().size(), 1U);
}

TEST(SlowRanks, OneOfTwoOnlyWhereItLasts) {
  SlowWorld world(2);
  world.own_seconds[0] = 0.14;
  ASSERT_FALSE(world.run(30));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
  ASSERT_FALSE(world.run(30));
  EXPECT_THAT(world.detector->slow_ranks(), ElementsAre(HasSubstr("rank 0 ")));
}

// A busy machine keeps the one waiting for some windows, then the other.
TEST(SlowRanks, TakingTurnsIsNotSlow) {
  SlowWorld world(2);
  for (int turn = 0; turn < 40; ++turn) {
    world.own_seconds = turn % 2 == 0 ? std::vector{0.3, 0.1} : std::vector{0.1, 0.3};
    ASSERT_FALSE(world.run(15));
  }
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
}

// One that is slow for good is not told again after each window that happens to be normal.
TEST(SlowRanks, ANormalWindowIsNotTheEndOfIt) {
  SlowWorld world(4);
  for (int turn = 0; turn < 20; ++turn) {
    world.own_seconds[2] = 0.15;
    ASSERT_FALSE(world.run(10));
    world.own_seconds[2] = 0.1;
    ASSERT_FALSE(world.run(3));
  }
  EXPECT_EQ(world.detector->slow_ranks().size(), 1U);
}

TEST(SlowRanks, WhoSavesIsNotSlow) {
  SlowWorld world(2);
  const auto training = world.before_heartbeat;
  world.before_heartbeat = [&, training](int rank) {
    training(rank);
    Heartbeat& heartbeat = world.heartbeats[rank];
    heartbeat.busy = rank == 0 && heartbeat.steps % 5 == 0 ? "saving" : "";
    if (!heartbeat.busy.empty()) heartbeat.step_seconds += 10;
  };
  ASSERT_FALSE(world.run(60));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
}

// Steps with noise, of which one in fifty takes five times as long.
TEST(SlowRanks, NoiseInTwentyThousandSteps) {
  World world({8});
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1.0, 0.1);
  world.before_heartbeat = [&](int rank) {
    Heartbeat& heartbeat = world.heartbeats[rank];
    const double own = 0.1 * std::max(noise(random), 0.5) * (random() % 50 == 0 ? 5 : 1);
    heartbeat.ticks += 1;
    ++heartbeat.steps;
    heartbeat.step_seconds += 0.6;
    heartbeat.waited_seconds += 0.6 - own;
  };
  ASSERT_FALSE(world.run(10000));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
}

TEST(SlowRanks, DifferencesOfAMillisecondAreNone) {
  SlowWorld world(3);
  std::ranges::fill(world.own_seconds, 0.0005);
  world.own_seconds[1] = 0.0012;
  ASSERT_FALSE(world.run(60));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
}

TEST(SlowRanks, NumbersThatNoRankSays) {
  World world({2});
  world.before_heartbeat = [&](int rank) {
    Heartbeat& heartbeat = world.heartbeats[rank];
    const double odd[] = {std::numeric_limits<double>::quiet_NaN(),
                          std::numeric_limits<double>::infinity(), -1e300, 1e300};
    heartbeat.ticks += 1;
    heartbeat.step_seconds = odd[world.step / 10 % 4];
    heartbeat.waited_seconds = odd[(world.step / 10 + rank) % 4];
    heartbeat.steps = world.step % 20 < 10 ? std::numeric_limits<std::int64_t>::max()
                                           : std::numeric_limits<std::int64_t>::min();
    heartbeat.wait = Heartbeat::Wait{all_gather(), {-5, 1 << 30}, odd[world.step / 10 % 4]};
    heartbeat.wait->place.operation = std::string(100000, '\n');
  };
  EXPECT_FALSE(world.run(60));
  world.detector->on_lost(0, std::string(100000, '\x1b'), world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_LT(verdict->reason.size(), 2000U);
  EXPECT_EQ(verdict->reason.find_first_of("\n\x1b"), std::string::npos);
}

}  // namespace
}  // namespace phalanx
