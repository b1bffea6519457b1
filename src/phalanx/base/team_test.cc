#include "phalanx/base/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace phalanx {
namespace {

std::vector<int> times_of_parts(Team& team, int threads, int parts, Dealing dealing) {
  std::vector<std::atomic<int>> times(static_cast<std::size_t>(parts));
  team.run(threads, parts, dealing, [&](Team::Member& member) {
    EXPECT_GE(member.slot(), 0);
    EXPECT_LT(member.slot(), std::max(1, std::min(threads, parts)));
    while (member.next()) ++times[static_cast<std::size_t>(member.part())];
  });
  return {times.begin(), times.end()};
}

TEST(Team, ComputesEveryPartOnce) {
  Team team;
  for (const Dealing dealing : {Dealing::kNeighbours, Dealing::kInOrder}) {
    for (const int threads : {1, 2, 3, 8, 2}) {
      for (const int parts : {0, 1, 2, 3, 7, 8, 100, 1000}) {
        EXPECT_EQ(times_of_parts(team, threads, parts, dealing),
                  std::vector<int>(static_cast<std::size_t>(parts), 1))
            << threads << " threads, " << parts << " parts";
      }
    }
  }
}

// Rounds follow each other faster than helpers come and go.
TEST(Team, RoundsSeeWhatTheOneBeforeWrote) {
  constexpr int kRounds = 20000, kParts = 5;
  Team team;
  std::vector<int> values(kParts, 0);
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<int> before = values;
    team.run(3, kParts, round % 2 == 0 ? Dealing::kInOrder : Dealing::kNeighbours,
             [&](Team::Member& member) {
               while (member.next()) {
                 const auto part = static_cast<std::size_t>(member.part());
                 values[part] = before[(part + 1) % kParts] + 1;
               }
             });
    for (const int value : values) ASSERT_EQ(value, round);
  }
}

TEST(Team, HelpersTakeParts) {
  Team team;
  // The caller's part ends only when a helper has begun another one.
  std::latch both(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<int> slots;
  team.run(2, 2, Dealing::kNeighbours, [&](Team::Member& member) {
    while (member.next()) {
      both.arrive_and_wait();
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      slots.insert(member.slot());
    }
  });
  EXPECT_EQ(threads.size(), 2);
  EXPECT_EQ(slots, (std::set<int>{0, 1}));
  EXPECT_EQ(team.counts().rounds, 1);
  EXPECT_EQ(team.counts().helped_parts, 1);
}

TEST(Team, AThreadThatDoesNotRunDelaysItsPartAlone) {
  constexpr int kParts = 64;
  Team team;
  std::atomic<int> done = 0;
  std::atomic<std::int64_t> of_helper = 0;
  team.run(2, kParts, Dealing::kNeighbours, [&](Team::Member& member) {
    while (member.next()) {
      if (member.slot() == 1) {
        ++of_helper;
        // Stands as if the system had given its core to another program.
        while (done.load() < kParts - 1) std::this_thread::yield();
      }
      ++done;
    }
  });
  EXPECT_EQ(done.load(), kParts);
  EXPECT_LE(of_helper.load(), 1);
  EXPECT_EQ(team.counts().helped_parts, of_helper.load());
}

// One that never comes is not waited for at all: the helper of a team has the lowest priority on
// the only core of this thread.
TEST(Team, SleepsBetweenRounds) {
  Team team;
  times_of_parts(team, 2, 2, Dealing::kNeighbours);
  // Spins for microseconds, then sleeps: no helper that has nothing to do takes a core.
  constexpr int kMostWaits = 10000;
  for (int i = 0; i < kMostWaits && team.counts().sleeps == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(team.counts().sleeps, 1);
  EXPECT_EQ(times_of_parts(team, 2, 9, Dealing::kInOrder), std::vector<int>(9, 1));
}

TEST(Team, ARoundInARoundHasOneMember) {
  std::atomic<int> parts = 0;
  Team::mine().run(2, 8, Dealing::kNeighbours, [&](Team::Member& outer) {
    while (outer.next()) {
      const auto thread = std::this_thread::get_id();
      Team::mine().run(4, 4, Dealing::kInOrder, [&](Team::Member& inner) {
        EXPECT_EQ(std::this_thread::get_id(), thread);
        EXPECT_EQ(inner.slot(), 0);
        while (inner.next()) ++parts;
      });
    }
  });
  EXPECT_EQ(parts.load(), 32);
}

TEST(Team, EveryThreadHasItsOwn) {
  const Team* const mine = &Team::mine();
  const Team* other = nullptr;
  std::thread([&] {
    other = &Team::mine();
    EXPECT_EQ(times_of_parts(Team::mine(), 3, 10, Dealing::kInOrder), std::vector<int>(10, 1));
  }).join();
  EXPECT_EQ(mine, &Team::mine());
  EXPECT_NE(mine, other);
}

}  // namespace
}  // namespace phalanx
