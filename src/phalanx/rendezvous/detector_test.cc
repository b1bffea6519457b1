#include "phalanx/rendezvous/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "phalanx/rendezvous/detector_test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Detector, NobodyHasFailed) {
  World world({2, 2});
  world.train(30);
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
  EXPECT_THAT(world.detector->warnings(), IsEmpty());
  EXPECT_EQ(world.detector->busy_ranks(world.now), "");
}

TEST(Detector, ARankThatIsGone) {
  World world({2, 2});
  world.train(10);
  world.wait_in(3, all_gather(), {2});
  ASSERT_FALSE(world.run(1));
  world.detector->on_lost(3, "its connection was closed", world.now);
  world.detector->on_lost(3, "killed by SIGKILL", world.now);
  world.detector->on_lost(1, "its connection was closed", world.now);
  world.detector->on_failed(0, "it cannot send", world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(3));
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_EQ(verdict->reason,
            "rank 3 (host n02, pid 103) is gone: its connection was closed; killed by SIGKILL; "
            "last known, 0.3 s before: after iteration 19, waiting in all_gather(f32 x 88), call "
            "12 of group tp, for rank 2");
  EXPECT_THAT(verdict->report, HasSubstr("rank 1 (host n01, pid 101): is gone; it was after"));
  EXPECT_EQ(std::ranges::count(verdict->report, '\n'), 4);
  EXPECT_FALSE(world.run(30)) << "a second verdict";
}

TEST(Detector, ARankThatSaysThatItFails) {
  World world({2, 2});
  world.detector->on_failed(3, "the disk\nis full", world.now);
  world.detector->on_lost(3, "its connection was closed", world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(3));
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_EQ(verdict->reason, "rank 3 (host n02): the disk is full");
}

TEST(Detector, WhoSaidGoodbyeIsNotLost) {
  World world({2});
  world.train(10);
  world.detector->on_left(1);
  world.detector->on_lost(1, "its connection was closed", world.now);
  world.silent[1] = true;
  world.train_but({false, true}, 30);
}

TEST(Detector, AHostWithoutPower) {
  World world({2, 2});
  world.train(10);
  world.silent[2] = world.silent[3] = true;
  world.train_but({false, false, true, true}, 3);
  world.detector->on_lost(2, "its connection timed out", world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(2, 3));
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_THAT(verdict->reason,
              HasSubstr("host n02 (ranks 2, 3) is gone: of rank 2 (host n02, pid 102), its "
                        "connection timed out; last known, 3.4 s before:"));
}

TEST(Detector, OneHostAloneIsNotNamedForAllOfItsRanks) {
  World world({2});
  world.detector->on_lost(1, "its connection was closed", world.now);
  world.detector->on_lost(0, "its connection was closed", world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

TEST(Detector, ARankThatIsStopped) {
  World world({2, 2});
  world.train(10);
  world.silent[2] = true;
  for (const int rank : {0, 1, 3}) world.wait_in(rank, all_gather(), {2});
  const auto start = world.now;
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(2));
  EXPECT_EQ(verdict->code, ErrorCode::kHang);
  EXPECT_LT(world.now - start, std::chrono::milliseconds(5500));
  EXPECT_THAT(verdict->reason,
              testing::MatchesRegex(
                  "rank 2 \\(host n02, pid 102\\) hangs: nothing has been heard of it for "
                  "5\\.[0-5] s, though its connection is open; last known, 5\\.[0-5] s before: "
                  "after iteration 19, in its own work"));
}

// A busy rank may be without progress, but not silent.
TEST(Detector, ARankThatIsStoppedWhileItSaves) {
  World world({2});
  world.train(10);
  world.heartbeats[0].busy = "saving the checkpoint of iteration 20";
  world.wait_in(1, all_gather(), {0});
  ASSERT_FALSE(world.run(1));
  world.silent[0] = true;
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(0));
  EXPECT_EQ(verdict->code, ErrorCode::kHang);
}

TEST(Detector, AHostThatIsFrozen) {
  World world({2, 2});
  world.train(10);
  world.silent[2] = world.silent[3] = true;
  world.wait_in(0, receive(), {2});
  world.wait_in(1, receive(), {3});
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(2, 3));
  EXPECT_EQ(verdict->code, ErrorCode::kHang);
  EXPECT_THAT(verdict->reason, HasSubstr("host n02 (ranks 2, 3) hangs: nothing has been heard of "
                                         "its ranks for 5."));
}

TEST(Detector, ARankThatDoesNotJoinACall) {
  World world({2, 2});
  world.train(10);
  for (const int rank : {0, 1, 3}) world.wait_in(rank, all_gather(), {2});
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(2));
  EXPECT_EQ(verdict->code, ErrorCode::kHang);
  EXPECT_THAT(verdict->reason,
              testing::MatchesRegex(
                  "rank 2 \\(host n02, pid 102\\) hangs: it has not joined all_gather\\(f32 x "
                  "88\\), call 12 of group tp, in which ranks 0, 1, 3 wait, for [0-9.]+ s"));
  EXPECT_EQ(verdict->report.find("rank 2 (host n02, pid 102): after iteration 19, in its own"), 0U);
}

TEST(Detector, ARankThatDoesNotSend) {
  World world({2});
  world.train(10);
  world.wait_in(0, receive(), {1});
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
  EXPECT_THAT(verdict->reason, HasSubstr("rank 1 (host n01, pid 101) hangs: rank 0 waits for it in "
                                         "receive(bf16 x 64), message 7, for "));
}

TEST(Detector, RanksThatWaitForEachOther) {
  World world({2});
  world.train(10);
  world.wait_in(0, all_gather(), {1});
  CommPlace earlier = all_gather();
  earlier.number = 11;
  world.wait_in(1, earlier, {0});
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
  EXPECT_THAT(verdict->reason,
              HasSubstr("rank 1 (host n01, pid 101) hangs: it waits in all_gather(f32 x 88), call "
                        "11 of group tp, for rank 0, while it has not joined all_gather(f32 x "
                        "88), call 12 of group tp, in which rank 0 waits, for "));
}

TEST(Detector, AllHangByThemselves) {
  World world({3});
  world.train(10);
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits.size(), 3U);
  EXPECT_THAT(verdict->reason, HasSubstr("nothing has moved in its own work, for 5."));
  EXPECT_THAT(verdict->reason, HasSubstr("; so do ranks "));
}

// The limit without flags; it holds in the first step, too.
TEST(Detector, AMinuteWhereNobodySaysOtherwise) {
  World world({2}, {});
  world.wait_in(0, all_gather(), {1});
  EXPECT_FALSE(world.run(59));
  const auto verdict = world.run(3);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

// The limits without flags: ten seconds within a host, a minute between hosts.
TEST(Detector, SilenceWhereNobodySaysOtherwise) {
  for (const auto& [rank, limit] : {std::pair{1, 10.0}, std::pair{3, 60.0}}) {
    World world({2, 2}, {});
    world.train(10);
    world.silent[rank] = true;
    std::vector<bool> still(4, false);
    still[rank] = true;
    world.train_but(still, limit - 1);
    const auto verdict = world.run(2);
    ASSERT_TRUE(verdict);
    EXPECT_THAT(verdict->culprits, ElementsAre(rank));
  }
}

// The largest limit of stillness of all ranks counts; the limit of silence of one holds for all.
TEST(Detector, RanksSayTheirLimits) {
  World world({2});
  world.train(10);
  world.heartbeats[0].still_limit = 20;
  world.heartbeats[1].still_limit = 30;
  EXPECT_FALSE(world.run(29));
  EXPECT_TRUE(world.run(3));

  World silent({2});
  silent.heartbeats[0].silence_limit = 2;
  silent.train(10);
  silent.silent[1] = true;
  const auto verdict = silent.run(3);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

TEST(Detector, NobodyIsStillWhereTheLimitIsOff) {
  World world({2});
  for (Heartbeat& heartbeat : world.heartbeats) heartbeat.still_limit = 0;
  world.wait_in(0, all_gather(), {1});
  EXPECT_FALSE(world.run(1000));
}

// Other ranks wait for the busy rank meanwhile, and further ranks for these.
TEST(Detector, WhoIsBusyDoesNotHang) {
  World world({4});
  world.train(10);
  world.heartbeats[0].busy = "saving the checkpoint of iteration 20";
  world.heartbeats[0].busy_progress = "3.2 GB, 2 files";
  world.wait_in(1, all_gather(), {0});
  world.wait_in(2, receive(), {1});
  world.wait_in(3, receive(), {2});
  world.before_heartbeat = [&](int rank) {
    if (rank == 0) ++world.heartbeats[0].ticks;
  };
  EXPECT_FALSE(world.run(100));
  EXPECT_EQ(world.detector->busy_ranks(world.now),
            "rank 0, which has been saving the checkpoint of iteration 20 for 100 s (3.2 GB, 2 "
            "files)");
  // It is no longer busy, and makes no progress.
  world.before_heartbeat = nullptr;
  world.heartbeats[0].busy.clear();
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(0));
  EXPECT_EQ(world.detector->busy_ranks(world.now), "");
}

// A file system that no longer answers.
TEST(Detector, WhoIsBusyAndDoesNotGoOnHangs) {
  World world({2});
  world.train(10);
  world.heartbeats[0].busy = "saving the checkpoint of iteration 20";
  world.heartbeats[0].busy_progress = "3.2 GB, 2 files";
  world.heartbeats[0].access = "writing /runs/a/model.tmp";
  world.wait_in(1, all_gather(), {0});
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(0));
  EXPECT_EQ(verdict->code, ErrorCode::kIo);
  EXPECT_THAT(verdict->reason,
              testing::MatchesRegex(
                  "rank 0 \\(host n01, pid 100\\) hangs: saving the checkpoint of iteration 20, "
                  "writing /runs/a/model.tmp \\(3.2 GB, 2 files so far\\), and nothing has moved "
                  "in it for 5\\.[0-9] s; rank 1 waits for it in all_gather\\(f32 x 88\\), call "
                  "12 of group tp"));

  World computing({2});
  computing.train(10);
  computing.heartbeats[1].busy = "evaluating after iteration 20";
  computing.wait_in(0, all_gather(), {1});
  const auto hang = computing.run(20);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->culprits, ElementsAre(1));
  EXPECT_EQ(hang->code, ErrorCode::kHang);
}

// A busy rank that waits for one that makes progress.
TEST(Detector, WhoIsBusyMayWait) {
  World world({2});
  for (Heartbeat& heartbeat : world.heartbeats) heartbeat.busy = "preparing the run";
  world.wait_in(1, {.rank = 1, .group = "rendezvous", .operation = "gather", .number = 3}, {0});
  world.before_heartbeat = [&](int rank) {
    if (rank == 0) ++world.heartbeats[0].ticks;
  };
  EXPECT_FALSE(world.run(100));
}

// A wait has ended, and the tick after it has not been counted yet.
TEST(Detector, TheEndOfALongWaitIsAMove) {
  World world({2});
  world.train(10);
  world.heartbeats[0].busy = "saving the checkpoint of iteration 20";
  world.wait_in(1, all_gather(), {0});
  world.before_heartbeat = [&](int rank) {
    if (rank == 0) ++world.heartbeats[0].ticks;
  };
  ASSERT_FALSE(world.run(30));
  world.heartbeats[1].wait.reset();
  EXPECT_FALSE(world.run(1));
}

TEST(Detector, TimeInWhichTheWatcherStoodStill) {
  World world({2});
  world.train(10);
  world.now += std::chrono::seconds(100);
  ASSERT_FALSE(world.run(0.1));
  world.train(10);
  EXPECT_THAT(world.detector->warnings(), IsEmpty());
  // The time of the gap does not excuse a rank that was silent before.
  world.silent[1] = true;
  world.train_but({false, true}, 3);
  world.now += std::chrono::seconds(100);
  ASSERT_FALSE(world.run(1.5));
  const auto verdict = world.run(3);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

TEST(Detector, ASilentRankThatComesBack) {
  World world({2});
  world.train(10);
  for (int times = 1; times <= 2; ++times) {
    world.silent[1] = true;
    world.train_but({false, true}, 3);
    world.silent[1] = false;
    world.train(5);
  }
  const auto warnings = world.detector->warnings();
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], testing::MatchesRegex("rank 1 \\(host n01, pid 101\\) was silent for "
                                                 "3\\.[0-9] s and is back \\(once so far\\)"));
  EXPECT_THAT(warnings[1], HasSubstr("(2 times so far)"));
  EXPECT_THAT(world.detector->warnings(), IsEmpty());
}

// A link that fails for some seconds: the rank's stillness before does not count against it.
TEST(Detector, ASilentRankIsNotStill) {
  World world({2});
  world.train(10);
  world.wait_in(0, all_gather(), {1});
  ASSERT_FALSE(world.run(3));
  world.silent[1] = true;
  ASSERT_FALSE(world.run(4));
  world.silent[1] = false;
  world.heartbeats[0].wait.reset();
  world.train(30);
}

// Ranks have nothing to do while others have not joined.
TEST(Detector, NobodyHangsBeforeAllHaveJoined) {
  std::vector<RankPlace> places(2);
  places[1].rank = 1;
  Detector detector(places);
  Detector::Clock::time_point now{};
  detector.on_joined(0, 1, now);
  for (int i = 0; i < 1000; ++i) {
    now += std::chrono::milliseconds(500);
    EXPECT_FALSE(detector.judge(now));
  }
  detector.on_joined(1, 2, now);
  EXPECT_FALSE(detector.judge(now));
  EXPECT_THROW(detector.on_joined(1, 2, now), InternalError);
  EXPECT_THROW(detector.on_heartbeat(2, {}, now), InternalError);
}

}  // namespace
}  // namespace phalanx
