// Runs whose --save is gone when they are started again, and runs whose starter is gone: torchrun's
// agent, a shell, a terminal.

#include <csignal>
#include <filesystem>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

// The machine may be so busy that nothing moves for a while.
constexpr const char* kPatient = "--hang-timeout-s 0 --silence-timeout-s 60 ";

class LostSave : public ProcessesTest {
 protected:
  static std::string saving() {
    return endless() + kPatient + "--save-interval 2 --save run --load run ";
  }
  bool has_saved() const {
    return eventually(kLimit, [&] {
      return std::filesystem::exists(directory_ / "run/latest_checkpointed_iteration.txt");
    });
  }
};

// The first attempt ends, for its directory is not there any more; a second one would begin anew.
TEST_F(LostSave, ARestartOfTheLauncherDoesNotBeginAnew) {
  prepare();
  ChildProcess launcher =
      launch("launch", "--nproc-per-node 2 --max-restarts 3 --rdzv-conf save_timeout=0", saving());
  ASSERT_TRUE(has_saved()) << launcher.err();
  std::filesystem::rename(directory_ / "run", directory_ / "moved");
  expect_end(launcher, 74);
  // The rank may have been ended before it could tell of its first checkpoint.
  EXPECT_THAT(launcher.err(), testing::ContainsRegex("not started again: .*/run.* is gone"));
  EXPECT_THAT(launcher.err(), testing::Not(HasSubstr("from the beginning")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/metrics.jsonl"));
  expect_clean();
}

// A job that Slurm starts again has another launcher, which knows nothing.
TEST_F(LostSave, AnotherLauncherWarnsOfBothReasons) {
  prepare();
  const ProcessesTest::Variables job = {{"SLURM_JOB_ID", "7"}};
  const ProcessesTest::Variables again = {{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}};
  const std::string run = "launch --nproc-per-node 1 -- pretrain gpt " + saving();
  {
    ChildProcess first = start("first", run + "--exit-interval 4", job);
    expect_end(first, 0);
    ChildProcess second = start("second", run + "--exit-interval 8", again);
    expect_end(second, 0);
    EXPECT_THAT(second.err(), HasSubstr("attempt 2 of this job: goes on from --save run"));
    EXPECT_THAT(second.err(), testing::Not(HasSubstr("warning: attempt")));
  }
  std::filesystem::rename(directory_ / "run", directory_ / "moved");
  ChildProcess refused =
      start("refused", run + "--exit-interval 4 --exit-on-missing-checkpoint", again);
  expect_end(refused, 66);
  ChildProcess warned = start("warned", run + "--exit-interval 4", again);
  expect_end(warned, 0);
  EXPECT_THAT(warned.err(),
              AllOf(HasSubstr("warning: attempt 2 of this job finds nothing in --save run"),
                    HasSubstr("none before it came as far as that, or what they saved is gone"),
                    HasSubstr("--exit-on-missing-checkpoint")));
}

class LostStarter : public ProcessesTest {
 protected:
  // A shell that starts ranks 0 and 1 as torchrun's agent does, with `variables`, and waits.
  ChildProcess start_ranks(const std::string& variables) const {
    const std::string rank =
        "LOCAL_RANK=$rank RANK=$rank LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 " +
        variables + " \"$@\" 2>rank_$rank.err & ";
    return start("starter", "pretrain gpt " + endless() + kPatient + "--save run", {}, 0,
                 {"/bin/sh", "-c", "for rank in 0 1; do " + rank + "done; wait", "sh"});
  }
  bool are_gone() const {
    return eventually(kLimit, [&] { return processes_of(run_mark()).empty(); });
  }
};

TEST_F(LostStarter, TorchrunsRanksSaveAndEndWithTheirAgent) {
  prepare();
  ChildProcess agent = start_ranks("TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0");
  ASSERT_TRUE(has_begun("run")) << read("rank_0.err") << read("rank_1.err");
  agent.signal(SIGKILL);
  expect_end(agent, 128 + SIGKILL);
  ASSERT_TRUE(are_gone()) << read("rank_0.err");
  EXPECT_THAT(read("rank_0.err"),
              AllOf(HasSubstr("torchrun's agent, which started this rank, is gone"),
                    HasSubstr("successfully saved checkpoint")));
  EXPECT_EQ(digest("run").at("iteration"), iterations("run"));
  expect_clean("run");
}

TEST_F(LostStarter, WhatAShellStartedGoesOn) {
  prepare();
  ChildProcess shell = start_ranks("");
  ASSERT_TRUE(has_begun("run")) << read("rank_0.err") << read("rank_1.err");
  shell.signal(SIGKILL);
  expect_end(shell, 128 + SIGKILL);
  const int before = iterations("run");
  EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; }))
      << read("rank_0.err");
  for (const FoundProcess& rank : processes_of(run_mark())) ::kill(rank.pid, SIGTERM);
  ASSERT_TRUE(are_gone());
  EXPECT_THAT(read("rank_0.err"), HasSubstr("exiting program after receiving SIGTERM"));
}

// A step that takes minutes: the rank ends after its limit.
TEST_F(LostStarter, ARankThatDoesNotLeaveIsEnded) {
  prepare();
  ChildProcess agent = start(
      "starter",
      "pretrain gpt " + model() +
          "--train-iters 4 --eval-iters 0 --global-batch-size 200000 --save run --save-interval 4 "
          "--distributed-timeout-minutes 0.02",
      {}, 0,
      {"/bin/sh", "-c", "RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none \"$@\" 2>rank_0.err & wait",
       "sh"});
  ASSERT_TRUE(eventually(kLimit, [&] {
    return read("rank_0.err").find("before the start of training step") != std::string::npos;
  })) << read("rank_0.err");
  agent.signal(SIGKILL);
  ASSERT_TRUE(are_gone()) << read("rank_0.err");
  EXPECT_THAT(read("rank_0.err"), HasSubstr("it is ended, and what it computed since the last"));
  expect_clean();
}

// A terminal that is closed.
TEST_F(LostStarter, AHangupSavesUnlessItIsIgnored) {
  prepare();
  for (const std::string ignores : {"", "trap '' HUP; "}) {
    std::filesystem::remove_all(directory_ / "run");
    ChildProcess run = start("hung_up", "pretrain gpt " + endless() + kPatient + "--save run", {},
                             0, {"/bin/sh", "-c", ignores + "exec \"$@\"", "sh"});
    ASSERT_TRUE(has_begun("run")) << run.err();
    run.signal(SIGHUP);
    if (!ignores.empty()) {
      const int before = iterations("run");
      EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; }));
      run.signal(SIGTERM);
    }
    expect_end(run, 85);
    EXPECT_THAT(run.err(),
                HasSubstr(ignores.empty() ? "after receiving SIGHUP" : "after receiving SIGTERM"));
    EXPECT_EQ(digest("run").at("iteration"), iterations("run"));
  }
}

// Preempted before it trains: nothing is saved, and nobody says so.
TEST_F(LostStarter, NobodySaysThatNothingWasSaved) {
  prepare();
  ChildProcess launcher =
      launch("launch", "--nproc-per-node 2", endless() + kPatient + "--save run");
  ASSERT_TRUE(eventually(kLimit, [&] { return pid_of_rank(run_mark(), 1) != 0; }));
  launcher.signal(SIGTERM);
  expect_end(launcher, 85);
  EXPECT_THAT(last_line(launcher), HasSubstr("2 ranks left; nothing is saved yet; exit 85"));
}

// `ulimit -v` is named, once. What is refused, an allocation or the stack of a thread, differs.
TEST_F(LostStarter, ARefusedAllocationNamesTheLimit) {
  prepare();
  ChildProcess launcher = start(
      "launch", "launch --nproc-per-node 1 -- pretrain gpt " + endless() + kPatient + "--save run",
      {}, 0, {"/bin/sh", "-c", "ulimit -v 160000; exec \"$@\"", "sh"});
  expect_end(launcher, 71);
  const std::string err = launcher.err();
  EXPECT_THAT(err, HasSubstr("ulimit -v is 156 MiB"));
  EXPECT_EQ(err.find("ulimit -v is"), err.rfind("ulimit -v is")) << err;
  EXPECT_THAT(err, testing::Not(HasSubstr("bad_alloc")));
}

}  // namespace
}  // namespace phalanx::processes
