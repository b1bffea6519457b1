#include "phalanx/rendezvous/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Seconds = std::chrono::duration<double>;

Detector::Limits five_seconds() {
  Detector::Limits limits;
  limits.silence = limits.far_silence = limits.still = std::chrono::seconds(5);
  return limits;
}

// A world whose ranks say what `beats` holds, every half second; the detector is asked ten times
// as often.
class World {
 public:
  explicit World(std::vector<int> ranks_of_hosts, const Detector::Limits& limits = five_seconds()) {
    std::vector<RankPlace> places;
    for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host)
      for (int local = 0; local < ranks_of_hosts[host]; ++local)
        places.push_back({.rank = static_cast<int>(places.size()),
                          .world_size = 0,
                          .host = static_cast<int>(host),
                          .local_rank = local,
                          .local_size = ranks_of_hosts[host],
                          .host_name = "n0" + std::to_string(host + 1)});
    beats.resize(places.size());
    silent.resize(places.size(), false);
    detector = std::make_unique<Detector>(places, limits);
    for (std::size_t rank = 0; rank < places.size(); ++rank)
      detector->joined(static_cast<int>(rank), 100 + static_cast<int>(rank), now);
  }

  // Until the verdict, or that many seconds.
  std::optional<Verdict> run(double seconds) {
    const auto end = now + std::chrono::duration_cast<Detector::Clock::duration>(Seconds(seconds));
    while (now < end) {
      for (std::size_t rank = 0; rank < beats.size(); ++rank) {
        if (silent[rank] || step % 10 != rank % 10) continue;
        if (on_beat) on_beat(static_cast<int>(rank));
        detector->heard(static_cast<int>(rank), beats[rank], now);
      }
      if (auto verdict = detector->judge(now)) return verdict;
      now += std::chrono::milliseconds(50);
      ++step;
    }
    return std::nullopt;
  }

  // All ranks end a step each half second, for so many seconds.
  void train(double seconds) {
    std::vector<bool> still(beats.size(), false);
    train_but(still, seconds);
  }
  void train_but(const std::vector<bool>& still, double seconds) {
    on_beat = [this, still](int rank) {
      if (still[rank]) return;
      Heartbeat& beat = beats[rank];
      beat.ticks += 10;
      ++beat.iteration;
      if (beat.iteration == 0) return;
      ++beat.steps;
      beat.step_seconds += 0.5;
      beat.waited_seconds += 0.1;
    };
    EXPECT_FALSE(run(seconds));
    on_beat = nullptr;
  }

  void wait_in(int rank, CommPlace at, std::vector<int> missing) {
    at.rank = rank;
    beats[rank].wait = Heartbeat::Wait{std::move(at), std::move(missing), 0.0};
  }

  std::vector<Heartbeat> beats;
  std::vector<bool> silent;
  std::function<void(int rank)> on_beat;
  std::unique_ptr<Detector> detector;
  Detector::Clock::time_point now{std::chrono::hours(1)};
  std::size_t step = 0;
};

CommPlace all_gather() {
  return {.rank = 0, .group = "tp", .operation = "all_gather(f32 x 88)", .number = 12};
}
CommPlace receive() {
  return {.rank = 0, .group = "", .operation = "receive(bf16 x 64)", .number = 7};
}

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
  world.detector->lost(3, "its connection was closed", world.now);
  world.detector->lost(3, "killed by SIGKILL", world.now);
  world.detector->lost(1, "its connection was closed", world.now);
  world.detector->failed(0, "it cannot send", world.now);
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
  world.detector->failed(3, "the disk\nis full", world.now);
  world.detector->lost(3, "its connection was closed", world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(3));
  EXPECT_EQ(verdict->code, ErrorCode::kTemporary);
  EXPECT_EQ(verdict->reason, "rank 3 (host n02): the disk is full");
}

TEST(Detector, WhoSaidGoodbyeIsNotLost) {
  World world({2});
  world.train(10);
  world.detector->left(1);
  world.detector->lost(1, "its connection was closed", world.now);
  world.silent[1] = true;
  world.train_but({false, true}, 30);
}

TEST(Detector, AHostWithoutPower) {
  World world({2, 2});
  world.train(10);
  world.silent[2] = world.silent[3] = true;
  world.train_but({false, false, true, true}, 3);
  world.detector->lost(2, "its connection timed out", world.now);
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
  world.detector->lost(1, "its connection was closed", world.now);
  world.detector->lost(0, "its connection was closed", world.now);
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

// Silence counts where stillness does not.
TEST(Detector, ARankThatIsStoppedWhileItSaves) {
  World world({2});
  world.train(10);
  world.beats[0].busy = "saving the checkpoint of iteration 20";
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

// In the first step as in any.
TEST(Detector, AMinuteWhereNobodySaysOtherwise) {
  World world({2}, {});
  world.wait_in(0, all_gather(), {1});
  EXPECT_FALSE(world.run(59));
  const auto verdict = world.run(3);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

// Ten seconds within a host and a minute between hosts.
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

// The largest of what the ranks say, and what one says of silence is said for all.
TEST(Detector, RanksSayTheirLimits) {
  World world({2});
  world.train(10);
  world.beats[0].still_limit = 20;
  world.beats[1].still_limit = 30;
  EXPECT_FALSE(world.run(29));
  EXPECT_TRUE(world.run(3));

  World silent({2});
  silent.beats[0].silence_limit = 2;
  silent.train(10);
  silent.silent[1] = true;
  const auto verdict = silent.run(3);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(1));
}

TEST(Detector, NobodyIsStillWhereTheLimitIsOff) {
  World world({2});
  for (Heartbeat& beat : world.beats) beat.still_limit = 0;
  world.wait_in(0, all_gather(), {1});
  EXPECT_FALSE(world.run(1000));
}

// Others wait for it meanwhile, and others for those.
TEST(Detector, WhoIsBusyDoesNotHang) {
  World world({4});
  world.train(10);
  world.beats[0].busy = "saving the checkpoint of iteration 20";
  world.beats[0].moved = "3.2 GB, 2 files";
  world.wait_in(1, all_gather(), {0});
  world.wait_in(2, receive(), {1});
  world.wait_in(3, receive(), {2});
  world.on_beat = [&](int rank) {
    if (rank == 0) ++world.beats[0].ticks;
  };
  EXPECT_FALSE(world.run(100));
  EXPECT_EQ(world.detector->busy_ranks(world.now),
            "rank 0, which has been saving the checkpoint of iteration 20 for 100 s (3.2 GB, 2 "
            "files)");
  // It is over, but nothing follows.
  world.on_beat = nullptr;
  world.beats[0].busy.clear();
  const auto verdict = world.run(20);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->culprits, ElementsAre(0));
  EXPECT_EQ(world.detector->busy_ranks(world.now), "");
}

// A file system that does not answer any more.
TEST(Detector, WhoIsBusyAndDoesNotGoOnHangs) {
  World world({2});
  world.train(10);
  world.beats[0].busy = "saving the checkpoint of iteration 20";
  world.beats[0].moved = "3.2 GB, 2 files";
  world.beats[0].access = "writing /runs/a/model.tmp";
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
  computing.beats[1].busy = "evaluating after iteration 20";
  computing.wait_in(0, all_gather(), {1});
  const auto hang = computing.run(20);
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->culprits, ElementsAre(1));
  EXPECT_EQ(hang->code, ErrorCode::kHang);
}

// Busy, and waiting for one that goes on.
TEST(Detector, WhoIsBusyMayWait) {
  World world({2});
  for (Heartbeat& beat : world.beats) beat.busy = "preparing the run";
  world.wait_in(1, {.rank = 1, .group = "rendezvous", .operation = "gather", .number = 3}, {0});
  world.on_beat = [&](int rank) {
    if (rank == 0) ++world.beats[0].ticks;
  };
  EXPECT_FALSE(world.run(100));
}

// The wait is over, the tick that follows has not been counted yet.
TEST(Detector, TheEndOfALongWaitIsAMove) {
  World world({2});
  world.train(10);
  world.beats[0].busy = "saving the checkpoint of iteration 20";
  world.wait_in(1, all_gather(), {0});
  world.on_beat = [&](int rank) {
    if (rank == 0) ++world.beats[0].ticks;
  };
  ASSERT_FALSE(world.run(30));
  world.beats[1].wait.reset();
  EXPECT_FALSE(world.run(1));
}

TEST(Detector, TimeInWhichTheWatcherStoodStill) {
  World world({2});
  world.train(10);
  world.now += std::chrono::seconds(100);
  ASSERT_FALSE(world.run(0.1));
  world.train(10);
  EXPECT_THAT(world.detector->warnings(), IsEmpty());
  // And it is not given to a rank that was silent before.
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

// A link that fails for some seconds: what the rank did before does not count against it.
TEST(Detector, ASilentRankIsNotStill) {
  World world({2});
  world.train(10);
  world.wait_in(0, all_gather(), {1});
  ASSERT_FALSE(world.run(3));
  world.silent[1] = true;
  ASSERT_FALSE(world.run(4));
  world.silent[1] = false;
  world.beats[0].wait.reset();
  world.train(30);
}

// While some have not joined the others have nothing to do.
TEST(Detector, NobodyHangsBeforeAllHaveJoined) {
  std::vector<RankPlace> places(2);
  places[1].rank = 1;
  Detector detector(places);
  Detector::Clock::time_point now{};
  detector.joined(0, 1, now);
  for (int i = 0; i < 1000; ++i) {
    now += std::chrono::milliseconds(500);
    EXPECT_FALSE(detector.judge(now));
  }
  detector.joined(1, 2, now);
  EXPECT_FALSE(detector.judge(now));
  EXPECT_THROW(detector.joined(1, 2, now), InternalError);
  EXPECT_THROW(detector.heard(2, {}, now), InternalError);
}

// ---------------------------------------------------------------------------------------------
// Slow ranks.

class SlowWorld : public World {
 public:
  explicit SlowWorld(int ranks) : World({ranks}), own_seconds(beats.size(), 0.1) {
    on_beat = [this](int rank) {
      Heartbeat& beat = beats[rank];
      const double longest = *std::ranges::max_element(own_seconds);
      beat.ticks += 10;
      beat.iteration += 1;
      beat.steps += 1;
      const auto noise = static_cast<double>((rank * 7 + beat.steps * 13) % 10);
      const double jitter = 0.01 * own_seconds[rank] * noise;
      beat.step_seconds += longest + jitter;
      beat.waited_seconds += longest - own_seconds[rank];
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
  // Again, once it was as fast as the others.
  world.own_seconds[2] = 0.1;
  ASSERT_FALSE(world.run(10));
  world.own_seconds[2] = 0.15;
  ASSERT_FALSE(world.run(20));
  EXPECT_EQ(world.detector->slow_ranks().size(), 1U);
}

TEST(SlowRanks, OneOfTwo) {
  SlowWorld world(2);
  world.own_seconds[0] = 0.14;
  ASSERT_FALSE(world.run(15));
  EXPECT_THAT(world.detector->slow_ranks(), ElementsAre(HasSubstr("rank 0 ")));
}

TEST(SlowRanks, WhoSavesIsNotSlow) {
  SlowWorld world(2);
  const auto training = world.on_beat;
  world.on_beat = [&, training](int rank) {
    training(rank);
    Heartbeat& beat = world.beats[rank];
    beat.busy = rank == 0 && beat.steps % 5 == 0 ? "saving" : "";
    if (!beat.busy.empty()) beat.step_seconds += 10;
  };
  ASSERT_FALSE(world.run(60));
  EXPECT_THAT(world.detector->slow_ranks(), IsEmpty());
}

// Every step has its noise, and one in fifty takes five times as long.
TEST(SlowRanks, NoiseInTwentyThousandSteps) {
  World world({8});
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1.0, 0.1);
  world.on_beat = [&](int rank) {
    Heartbeat& beat = world.beats[rank];
    const double own = 0.1 * std::max(noise(random), 0.5) * (random() % 50 == 0 ? 5 : 1);
    beat.ticks += 1;
    ++beat.steps;
    beat.step_seconds += 0.6;
    beat.waited_seconds += 0.6 - own;
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
  world.on_beat = [&](int rank) {
    Heartbeat& beat = world.beats[rank];
    const double odd[] = {std::numeric_limits<double>::quiet_NaN(),
                          std::numeric_limits<double>::infinity(), -1e300, 1e300};
    beat.ticks += 1;
    beat.step_seconds = odd[world.step / 10 % 4];
    beat.waited_seconds = odd[(world.step / 10 + rank) % 4];
    beat.steps = world.step % 20 < 10 ? std::numeric_limits<std::int64_t>::max()
                                      : std::numeric_limits<std::int64_t>::min();
    beat.wait = Heartbeat::Wait{all_gather(), {-5, 1 << 30}, odd[world.step / 10 % 4]};
    beat.wait->at.operation = std::string(100000, '\n');
  };
  EXPECT_FALSE(world.run(60));
  world.detector->lost(0, std::string(100000, '\x1b'), world.now);
  const auto verdict = world.run(1);
  ASSERT_TRUE(verdict);
  EXPECT_LT(verdict->reason.size(), 2000U);
  EXPECT_EQ(verdict->reason.find_first_of("\n\x1b"), std::string::npos);
}

}  // namespace
}  // namespace phalanx
