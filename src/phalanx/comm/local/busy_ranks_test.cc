#include "phalanx/comm/local/busy_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "phalanx/comm/transport_test_support.h"

namespace phalanx::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;
using transports::Rank;

using Clock = BusyRanks::Clock;

constexpr Clock::time_point kStart{minutes(1000)};
constexpr Clock::time_point at(int minute) { return kStart + minutes(minute); }
const std::array<int, 1> kRank0 = {0};
const std::array<int, 1> kRank1 = {1};
const std::array<int, 2> kRanks12 = {1, 2};

TEST(BusyRanksTest, ABusyRankExcusesWaitsForItUntilItEnds) {
  BusyRanks ranks(3);
  EXPECT_EQ(ranks.excuse(kRanks12, {}, at(0)).until, Clock::time_point{});
  ranks.begin(2, "saving", at(1));
  EXPECT_EQ(ranks.excuse(kRanks12, {}, at(13)).until, at(13));
  EXPECT_EQ(ranks.excuse(kRanks12, {}, at(13)).reason, "rank 2, which has been saving for 12 min");
  EXPECT_EQ(ranks.excuse(kRank0, {}, at(13)).until, Clock::time_point{});
  ranks.act(2, {}, at(14));
  ranks.end(2);
  EXPECT_EQ(ranks.excuse(kRanks12, {}, at(20)).until, at(14));
  EXPECT_EQ(ranks.excuse(kRanks12, {}, at(20)).reason, "");
}

TEST(BusyRanksTest, TheActivityThatBeganLastIsNamed) {
  BusyRanks ranks(1);
  ranks.begin(0, "saving", at(0));
  ranks.begin(0, "syncing the disk", at(2));
  EXPECT_EQ(ranks.excuse(kRank0, {}, at(4)).reason,
            "rank 0, which has been syncing the disk for 2 min");
  ranks.act(0, {}, at(4));
  ranks.end(0);
  EXPECT_EQ(ranks.excuse(kRank0, {}, at(4)).reason, "rank 0, which has been saving for 4 min");
}

// Rank 1 waits for rank 2, which waits for rank 3, which is busy.
TEST(BusyRanksTest, WhoWaitsForABusyRankIsExcusedToo) {
  BusyRanks ranks(5);
  const std::vector<PendingWait> waits = {{{1}, {2}}, {{2}, {3, 4}}};
  ranks.begin(3, "saving", at(0));
  EXPECT_EQ(ranks.excuse(kRank1, waits, at(5)).until, at(5));
  EXPECT_THAT(ranks.excuse(kRank1, waits, at(5)).reason, HasSubstr("rank 3, which"));
  // What rank 3 sends wakes rank 2, whose own answer may take it some time.
  ranks.act(3, waits, at(6));
  EXPECT_EQ(ranks.excuse(kRank1, {}, at(7)).until, at(6));
}

TEST(BusyRanksTest, BusyRanksThatWaitForEachOtherAreNotExcused) {
  BusyRanks ranks(2);
  ranks.begin(0, "saving", at(0));
  const std::vector<PendingWait> before = {{{1}, {0}}};
  ranks.act(0, before, at(3));
  const std::vector<PendingWait> waits = {{{0}, {1}}, {{1}, {0}}};
  EXPECT_EQ(ranks.excuse(kRank0, waits, at(9)).until, at(3));
  EXPECT_EQ(ranks.excuse(kRank1, waits, at(9)).until, at(3));
}

// The ranks are in groups of their own: the first one has no group with the busy one.
TEST(LocalBusyTest, SoIsARankThatWaitsForABusyOne) {
  const auto world = make_local_world(3, {.timeout = milliseconds(20)});
  Rank first(*world[0], 1 << 16), second(*world[1], 1 << 16), busy(*world[2], 1 << 16);
  const auto receive = [](Rank& rank, int from) {
    rank.world.receive(rank.context, rank.empty(DType::kF32, 1), from, 0).wait({});
  };
  const auto send = [](Rank& rank, int to) {
    rank.world.send(rank.context, rank.empty(DType::kF32, 1), to, 0).wait({});
  };
  const Communicator::Busy activity = busy.world.busy("thinking");
  // Busy, since its thread may begin late; a waiting rank does not count as busy.
  const Communicator::Busy beginning = second.world.busy("beginning");
  std::jthread third([&] {
    std::this_thread::sleep_for(milliseconds(200));
    send(busy, 1);
  });
  std::jthread middle([&] {
    EXPECT_NO_THROW(receive(second, 2));
    EXPECT_NO_THROW(send(second, 0));
  });
  EXPECT_NO_THROW(receive(first, 1));
}

}  // namespace
}  // namespace phalanx::local
