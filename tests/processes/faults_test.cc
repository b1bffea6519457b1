// Ranks are killed and stopped at random times: the culprit is named, the others end, and the
// machine is as it was before.

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

bool is_nightly() {
  const char* const nightly = std::getenv("PHALANX_NIGHTLY");
  return nightly != nullptr && std::string_view(nightly) == "1";
}

class Faults : public ProcessesTest {
 protected:
  struct World {
    std::string name;
    int ranks;
    int victim;
    std::chrono::milliseconds delay;
  };
  // By its number alone.
  static World world(int number, int longest_delay_ms) {
    std::mt19937 random(static_cast<unsigned>(20261122 + number));
    const int ranks = random() % 2 == 0 ? 2 : 4;
    return {.name = fmt::format("world_{}", number),
            .ranks = ranks,
            .victim = static_cast<int>(random() % static_cast<unsigned>(ranks)),
            .delay = std::chrono::milliseconds(random() % static_cast<unsigned>(longest_delay_ms))};
  }
  static std::string layout(const World& world) {
    return world.ranks == 2 ? "--pipeline-model-parallel-size 2 "
                            : "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ";
  }
  ChildProcess launch_world(const World& world) const {
    return launch(world.name,
                  fmt::format("--nproc-per-node {} --log-dir {}_logs", world.ranks, world.name),
                  fmt::format("{}{} --save {}", endless(), layout(world), world.name));
  }
  // The rank of this launcher: several worlds may run at once.
  pid_t victim_of(const ChildProcess& launcher, const World& world) const {
    for (const FoundProcess& process : processes_of(run_mark())) {
      if (process.is_launcher || process.rank != world.victim) continue;
      if (process.command.find("--save " + world.name + " ") == std::string::npos) continue;
      return process.pid;
    }
    ADD_FAILURE() << "rank " << world.victim << " is not there\n" << launcher.err();
    return 0;
  }
  void expect_culprit(const World& world, const ChildProcess& launcher, const std::string& reason,
                      int exit) const {
    const Json json = summary(world.name + "_logs");
    EXPECT_EQ(json.value("exit", -1), exit);
    EXPECT_EQ(json.value("world_size", -1), world.ranks);
    EXPECT_EQ(json.value("attempts", -1), 1);
    ASSERT_TRUE(json.contains("culprit") && json["culprit"].is_object()) << json;
    EXPECT_EQ(json["culprit"].value("rank", -1), world.victim) << json << launcher.err();
    EXPECT_THAT(json["culprit"].value("reason", ""), testing::StartsWith(reason)) << json;
    EXPECT_THAT(last_line(launcher), HasSubstr(fmt::format("rank {} ", world.victim)));
  }
};

// From the first moment on: also while they find each other.
TEST_F(Faults, WhoIsKilledIsNamed) {
  prepare();
  const int count = is_nightly() ? 200 : 6;
  for (int number = 0; number < count; ++number) {
    const World world = this->world(number, 1500);
    SCOPED_TRACE(fmt::format("{}: rank {} of {} after {} ms", world.name, world.victim, world.ranks,
                             world.delay.count()));
    ChildProcess launcher = launch_world(world);
    ASSERT_TRUE(eventually(kLimit, [&] { return pid_of_rank(run_mark(), world.victim) != 0; }))
        << launcher.err();
    std::this_thread::sleep_for(world.delay);
    if (const pid_t victim = victim_of(launcher, world)) ::kill(victim, SIGKILL);
    expect_end(launcher, 75);
    expect_culprit(world, launcher, "signal 9", 75);
    expect_clean(world.name, world.victim == 0);
    if (HasFailure()) return;
  }
}

// All worlds at once: who is stopped is found by the clock alone.
TEST_F(Faults, WhoIsStoppedIsNamed) {
  prepare();
  const int rounds = is_nightly() ? 17 : 2;
  constexpr int kAtOnce = 3;
  for (int round = 0; round < rounds; ++round) {
    std::vector<World> worlds;
    std::vector<ChildProcess> launchers;
    for (int i = 0; i < kAtOnce; ++i) {
      worlds.push_back(world(1000 + kAtOnce * round + i, 500));
      launchers.push_back(launch_world(worlds.back()));
      ASSERT_TRUE(has_begun(worlds.back().name)) << launchers.back().err();
      std::this_thread::sleep_for(worlds.back().delay);
      if (const pid_t victim = victim_of(launchers.back(), worlds.back())) {
        ::kill(victim, SIGSTOP);
      }
    }
    for (int i = 0; i < kAtOnce; ++i) {
      SCOPED_TRACE(
          fmt::format("{}: rank {} of {}", worlds[i].name, worlds[i].victim, worlds[i].ranks));
      expect_end(launchers[i], 124);
      expect_culprit(worlds[i], launchers[i], "hang", 124);
    }
    expect_clean(worlds[0].name);
    if (HasFailure()) return;
  }
}

// Its launcher waits for the only rank as for any, and hears how it goes.
TEST_F(Faults, TheOnlyRankJoinsAndIsWatched) {
  prepare();
  ChildProcess launcher =
      launch("launch", "--nproc-per-node 1 --rdzv-conf join_timeout=3 --log-dir logs",
             endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << launcher.err();
  std::this_thread::sleep_for(3s);  // the limit of joining
  const int before = iterations("run");
  EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; })) << launcher.err();
  ::kill(pid_of_rank(run_mark(), 0), SIGSTOP);
  expect_end(launcher, 124);
  EXPECT_EQ(summary("logs")["culprit"].value("rank", -1), 0);
  EXPECT_EQ(summary("logs")["culprit"].value("reason", ""), "hang");
  expect_clean("run");
}

// Stopped for less than the limit: nothing happens.
TEST_F(Faults, WhoIsStoppedForAShortWhileGoesOn) {
  prepare();
  ChildProcess launcher = launch("launch", "--nproc-per-node 2", endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << launcher.err();
  const pid_t victim = pid_of_rank(run_mark(), 1);
  ::kill(victim, SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  ::kill(victim, SIGCONT);
  const int before = iterations("run");
  EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; }));
  launcher.signal(SIGINT);
  expect_end(launcher, 85);
  expect_clean("run");
}

TEST_F(Faults, ARestartEndsWithTheBitsOfAnUndisturbedRun) {
  prepare();
  const std::string flags = model() +
                            "--use-distributed-optimizer --train-iters 120 --lr-decay-iters 120 "
                            "--eval-iters 0 --save-interval 20 --global-batch-size 32 ";
  ASSERT_EQ(run("pretrain gpt " + flags + "--nproc 2 --save threads").status, 0);
  ChildProcess launcher = launch("launch", "--nproc-per-node 2 --max-restarts 3 --log-dir logs",
                                 flags + "--async-save --snapshot-fraction 0.5 --save run");
  // Batches large enough that a rank is still there when its iteration has been read.
  struct Kill {
    int iteration;
    int rank;
  };
  for (const Kill& kill : {Kill{30, 1}, Kill{70, 0}}) {
    ASSERT_TRUE(eventually(kLimit, [&] { return iterations("run") >= kill.iteration; }))
        << launcher.err();
    ::kill(pid_of_rank(run_mark(), kill.rank), SIGKILL);
    // Lines beyond the loaded checkpoint are cut away when the next attempt begins.
    ASSERT_TRUE(eventually(kLimit, [&] { return iterations("run") < kill.iteration; }))
        << launcher.err();
  }
  expect_end(launcher, 0);
  const Json json = summary("logs");
  EXPECT_EQ(json.value("attempts", -1), 3) << json;
  EXPECT_EQ(json.value("exit", -1), 0) << json;
  ASSERT_EQ(json["attempt_ends"].size(), 3U) << json;
  EXPECT_EQ(json["attempt_ends"][0]["culprit"].value("rank", -1), 1) << json;
  EXPECT_EQ(json["attempt_ends"][1]["culprit"].value("rank", -1), 0) << json;
  EXPECT_EQ(digest("run"), digest("threads"));
  EXPECT_EQ(results("run"), results("threads"));
  expect_clean("run");
}

// Killed before it has begun anything, the job resumes nobody else's run; what it was told to do is
// done by the attempt that comes to it.
TEST_F(Faults, ARankThatIsKilledAtOnceTakesOverNothing) {
  prepare();
  const std::string flags = model() + "--eval-iters 0 --save-interval 4 --keep-last 1 ";
  ASSERT_EQ(run("pretrain gpt " + flags + "--seed 5 --nproc 2 --save run").status, 0);
  const Json before = digest("run");
  const auto kill_at_once = [&](const std::string& more, int status) {
    ChildProcess launcher =
        launch("launch", "--nproc-per-node 2 --max-restarts 2", flags + "--save run " + more);
    pid_t victim = 0;
    EXPECT_TRUE(eventually(kLimit, [&] { return (victim = pid_of_rank(run_mark(), 0)) != 0; }));
    ::kill(victim, SIGKILL);
    expect_end(launcher, status);
  };
  kill_at_once("", 78);
  EXPECT_EQ(digest("run"), before);
  EXPECT_EQ(iterations("run"), 8);
  kill_at_once("--overwrite", 0);
  EXPECT_EQ(digest("run/abandoned-1"), before);
  ASSERT_EQ(run("pretrain gpt " + flags + "--nproc 2 --save threads").status, 0);
  EXPECT_EQ(digest("run"), digest("threads"));
  EXPECT_EQ(results("run"), results("threads"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/abandoned-2"));
}

// However early: nothing is lost, and the job may come again.
TEST_F(Faults, ASignalBeforeTheFirstStepIsAPreemption) {
  prepare();
  for (const int delay_ms : {0, 20, 200}) {
    ChildProcess launcher = launch("launch", "--nproc-per-node 2", endless() + "--save run ");
    EXPECT_TRUE(eventually(kLimit, [&] { return pid_of_rank(run_mark(), 0) != 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    launcher.signal(SIGTERM);
    expect_end(launcher, 85);
    std::filesystem::remove_all(directory_ / "run");
  }
}

// Without a launcher rank 0's process is where the others meet.
TEST_F(Faults, RanksStartedByHandHearOfEachOthersEnd) {
  prepare();
  for (const int victim : {0, 1}) {
    SCOPED_TRACE(fmt::format("rank {} is killed", victim));
    const std::string save = fmt::format("run_{}", victim);
    std::vector<ChildProcess> ranks;
    for (const int rank : {0, 1})
      ranks.push_back(start_rank(rank, 2, endless() + "--save " + save));
    ASSERT_TRUE(has_begun(save)) << ranks[0].err() << ranks[1].err();
    ranks[victim].signal(SIGKILL);
    expect_end(ranks[victim], 128 + SIGKILL);
    expect_end(ranks[1 - victim], 75);
    EXPECT_THAT(last_line(ranks[1 - victim]), HasSubstr(fmt::format("rank {}", victim)));
    expect_clean(save);
  }
}

TEST_F(Faults, RanksDieWithTheirLauncher) {
  prepare();
  const std::string words = fmt::format(
      "--nproc-per-node 1 --nnodes 2 --master-addr 127.0.0.1 --master-port {} --rdzv-insecure "
      "--node-rank ",
      free_port());
  ChildProcess first = launch("first", words + "0", endless() + "--save run");
  ChildProcess second = launch("second", words + "1", endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << first.err() << second.err();
  second.signal(SIGKILL);
  expect_end(second, 128 + SIGKILL);
  expect_end(first, 75);
  EXPECT_THAT(first.err(), HasSubstr("rank 1"));
  expect_clean("run");
}

// What the ranks say when they are asked where they are.
TEST_F(Faults, SigquitWritesTheStacksOfARankThatGoesOn) {
  prepare();
  ChildProcess rank_0 = start_rank(0, 2, endless() + "--save run");
  ChildProcess rank_1 = start_rank(1, 2, endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << rank_0.err() << rank_1.err();
  rank_1.signal(SIGQUIT);
  EXPECT_TRUE(eventually(kLimit, [&] {
    return rank_1.err().find("phalanx") != std::string::npos &&
           rank_1.err().find("thread") != std::string::npos;
  })) << rank_1.err();
  const int before = iterations("run");
  EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; }));
  rank_0.signal(SIGTERM);
  expect_end(rank_0, 85);
  expect_end(rank_1, 85);
  expect_clean("run");
}

}  // namespace
}  // namespace phalanx::processes
