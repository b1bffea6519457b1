// The launcher with shell scripts as ranks: how they end, what follows, and what is printed.

#include "phalanx/launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/launch/signal_inbox.h"
#include "phalanx/launch/test_support.h"

namespace phalanx::launch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

using Clock = std::chrono::steady_clock;

// Far above what any of these tests takes.
constexpr auto kPatience = std::chrono::seconds(30);

bool wait_until(const std::function<bool()>& condition) {
  const auto until = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool is_alive(int pid) { return ::kill(pid, 0) == 0; }

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST_F(LaunchTest, RanksThatEndWellEndTheRun) {
  EXPECT_EQ(run(3, "echo rank $RANK of $WORLD_SIZE"), 0);
  EXPECT_EQ(read("logs/run/attempt_0/rank_2.out"), "rank 2 of 3\n");
  EXPECT_EQ(read("console.out"), "rank 0 of 3\n");
  EXPECT_THAT(read("console.err"), EndsWith("phalanx launch: 3 ranks finished; exit 0\n"));
  const auto json = summary();
  EXPECT_EQ(json["run"], "run");
  EXPECT_EQ(json["attempts"], 1);
  EXPECT_EQ(json["exit"], 0);
  EXPECT_EQ(json["world_size"], 3);
  EXPECT_TRUE(json["culprit"].is_null());
  EXPECT_EQ(json["attempt_ends"].size(), 1U);
  using std::filesystem::perms;
  for (const char* name : {"logs/run", "logs/run/attempt_0"}) {
    EXPECT_EQ(std::filesystem::status(directory_ / name).permissions(), perms::owner_all) << name;
  }
}

TEST_F(LaunchTest, RanksFindTorchrunsVariables) {
  ::setenv("PHALANX_RDZV_SECRET_FILE", "/nowhere", 1);
  EXPECT_EQ(run(2, "env"), 0);
  ::unsetenv("PHALANX_RDZV_SECRET_FILE");
  const std::string variables = "\n" + read("logs/run/attempt_0/rank_1.out");
  for (const std::string line :
       {"RANK=1", "LOCAL_RANK=1", "GROUP_RANK=0", "ROLE_RANK=1", "ROLE_NAME=default",
        "LOCAL_WORLD_SIZE=2", "WORLD_SIZE=2", "GROUP_WORLD_SIZE=1", "ROLE_WORLD_SIZE=2",
        "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0",
        "TORCHELASTIC_RUN_ID=run", "TORCHELASTIC_USE_AGENT_STORE=False",
        "PHALANX_COORDINATOR=unix:none"}) {
    EXPECT_THAT(variables, HasSubstr("\n" + line + "\n"));
  }
  EXPECT_THAT(variables, testing::ContainsRegex("\nPHALANX_LAUNCH=[0-9a-f]{32}\n"));
  EXPECT_THAT(variables, HasSubstr("TORCHELASTIC_ERROR_FILE=" + here() +
                                   "/logs/run/attempt_0/rank_1.error.json\n"));
  EXPECT_THAT(variables, Not(HasSubstr("PHALANX_RDZV_SECRET_FILE")));
}

// Ranks have process groups of their own, an empty input, and only the intended descriptors of the
// launcher.
TEST_F(LaunchTest, RanksInheritNothingElse) {
  const int foreign = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(foreign, 0);
  EXPECT_EQ(run(1, "ls /proc/self/fd | tr '\\n' ' '; cut -d' ' -f5 /proc/$$/stat; echo $$; cat"),
            0);
  ::close(foreign);
  std::istringstream output(read("logs/run/attempt_0/rank_0.out"));
  std::string descriptors;
  std::getline(output, descriptors);
  // 3 is the directory that ls reads. The shell's process group follows.
  EXPECT_THAT(descriptors, testing::StartsWith("0 1 2 3 "));
  std::string pid;
  std::getline(output, pid);
  EXPECT_EQ(descriptors.substr(8), pid);
}

TEST_F(LaunchTest, TheFirstThatFailsIsTheCulprit) {
  EXPECT_EQ(run(4,
                "if [ $RANK = 2 ]; then echo 'error: no such thing' >&2; exit 70; fi\n"
                "sleep 0.1; echo 'error: rank 2 is gone' >&2; exit 75"),
            70);
  const auto culprit = summary()["culprit"];
  EXPECT_EQ(culprit["rank"], 2);
  EXPECT_EQ(culprit["host"], "here");
  EXPECT_EQ(culprit["attempt"], 0);
  EXPECT_EQ(culprit["reason"], "exit 70");
  EXPECT_EQ(culprit["message"], "error: no such thing");
  const std::string console = read("console.err");
  EXPECT_THAT(console, EndsWith("phalanx launch: rank 2 (host here) ended with exit code 70; 3 "
                                "other ranks stopped; exit 70\n"));
  EXPECT_THAT(console, HasSubstr("[rank 2] error: no such thing\n"));
  EXPECT_THAT(console, HasSubstr("[ranks 1, 3] error: rank 2 is gone (x2)\n"));
  EXPECT_THAT(console, HasSubstr("\nerror: rank 2 is gone\n"));  // rank 0's own
}

TEST_F(LaunchTest, WhoBlamesAnotherIsNotTheCulprit) {
  // Rank 0 learns of it before the launcher does.
  EXPECT_EQ(run(2, "if [ $RANK = 0 ]; then exit 75; fi; sleep 0.1; exit 65"), 65);
  EXPECT_EQ(summary()["culprit"]["rank"], 1);
}

TEST_F(LaunchTest, ASignalIsTold) {
  EXPECT_EQ(run(2, "if [ $RANK = 1 ]; then kill -KILL $$; fi; sleep 30"), 75);
  EXPECT_EQ(summary()["culprit"]["rank"], 1);
  EXPECT_EQ(summary()["culprit"]["reason"], "signal 9");
  EXPECT_THAT(read("console.err"), HasSubstr("rank 1 (host here) was killed by SIGKILL; 1 other "
                                             "rank stopped; exit 75"));
}

// The last line of a log is no word of the end.
TEST_F(LaunchTest, WhoIsKilledHasNoLastWords) {
  EXPECT_EQ(run(2, "echo 'iteration 10' >&2; [ $RANK = 0 ] && sleep 30; kill -KILL $$"), 75);
  EXPECT_EQ(summary()["culprit"]["message"], "");
  EXPECT_THAT(read("console.err"), Not(HasSubstr("last words")));
}

// A rank that fails of its own says so itself; neither the verdict nor the end say it again.
TEST_F(LaunchTest, AnErrorIsToldOnce) {
  const auto times_told = [&](const std::string& line) {
    std::ofstream(directory_ / "pids");
    std::filesystem::remove(directory_ / "judged");
    std::jthread coordinator([this] {
      wait_until([&] { return numbers_in("pids").size() == 2; });
      verdicts_->put({.rank = 1,
                      .host = "here",
                      .code = ErrorCode::kTemporary,
                      .reason = "rank 1 (host here): no such thing",
                      .is_reported = true},
                     {"rank 0: in its own work"});
      std::ofstream(directory_ / "judged");
    });
    EXPECT_EQ(run(2, "cd " + here() +
                         "; echo $$ >>pids; [ $RANK = 0 ] && sleep 30\n"
                         "until [ -e judged ]; do sleep 0.05; done\n"
                         "echo 'error: " +
                         line + "' >&2; exit 70"),
              70);
    EXPECT_EQ(summary()["culprit"]["message"], "error: " + line);
    const std::string console = read("console.err");
    int times = 0;
    for (std::size_t at = console.find("no such thing"); at != std::string::npos;
         at = console.find("no such thing", at + 1)) {
      ++times;
    }
    return times;
  };
  EXPECT_EQ(times_told("no such thing"), 1) << read("console.err");
  EXPECT_THAT(read("console.err"), HasSubstr("[rank 1] error: no such thing\n"));
  // Where it blames another, or its errors go to a file alone, the launcher tells them.
  EXPECT_EQ(times_told("ended because rank 0 failed"), 1) << read("console.err");
  options_.redirects = StreamChoice::parse("--redirects", "3");
  EXPECT_EQ(times_told("no such thing"), 1) << read("console.err");
  EXPECT_THAT(read("console.err"),
              HasSubstr("phalanx launch: rank 1 (host here): no such thing\n"));
}

TEST_F(LaunchTest, TheErrorFileSaysMoreThanTheLastLine) {
  EXPECT_EQ(run(1,
                "echo noise >&2; echo '{\"message\": {\"message\": \"the cause\"}}' "
                ">\"$TORCHELASTIC_ERROR_FILE\"; exit 78"),
            78);
  EXPECT_EQ(summary()["culprit"]["message"], "the cause");
}

TEST_F(LaunchTest, RanksThatIgnoreSigtermAreKilled) {
  const auto begin = Clock::now();
  EXPECT_EQ(run(2,
                "if [ $RANK = 1 ]; then sleep 0.2; exit 70; fi; trap '' TERM\n"
                "echo $$ >" +
                    here() + "/pids; while :; do sleep 1; done"),
            70);
  EXPECT_LT(seconds_since(begin), 20.0);
  const auto pids = numbers_in("pids");
  ASSERT_EQ(pids.size(), 1U);
  EXPECT_FALSE(is_alive(pids[0]));
}

TEST_F(LaunchTest, AStoppedRankIsKilledAtOnce) {
  grace_ = std::chrono::minutes(1);
  const auto begin = Clock::now();
  EXPECT_EQ(run(2, "if [ $RANK = 1 ]; then sleep 0.3; exit 70; fi; kill -STOP $$"), 70);
  // Long before the launcher would send SIGTERM.
  EXPECT_LT(seconds_since(begin), 10.0);
}

TEST_F(LaunchTest, NothingOfARankStaysBehind) {
  EXPECT_EQ(run(2, "sleep 60 & echo $! >>" + here() + "/pids; exit 0"), 0);
  const auto pids = numbers_in("pids");
  ASSERT_EQ(pids.size(), 2U);
  for (const int pid : pids) EXPECT_TRUE(wait_until([&] { return !is_alive(pid); }));
}

TEST_F(LaunchTest, AHangIsTheVerdictsCulprit) {
  std::jthread coordinator([this] {
    wait_until([&] { return numbers_in("pids").size() == 2; });
    verdicts_->put({.rank = 1,
                    .code = ErrorCode::kHang,
                    .reason = "rank 1 hangs: it has not joined all_reduce",
                    .after_seconds = 0,
                    .detected_seconds = 5},
                   {"rank 0: in all_reduce", "rank 1: in no message"});
  });
  EXPECT_EQ(run(2, "echo $$ >>" + here() + "/pids; trap '' TERM; while :; do [ $RANK = 0 -a -e " +
                       here() + "/told ] && exit 75; sleep 0.1; done"),
            124);
  const auto culprit = summary()["culprit"];
  EXPECT_EQ(culprit["rank"], 1);
  EXPECT_EQ(culprit["reason"], "hang");
  EXPECT_EQ(culprit["message"], "rank 1 hangs: it has not joined all_reduce");
  EXPECT_EQ(culprit["detected_after_s"], 5);
  EXPECT_THAT(read("console.err"), HasSubstr("rank 0: in all_reduce\nrank 1: in no message\n"));
  EXPECT_THAT(read("console.err"), EndsWith("rank 1 (host here) hung; 1 other rank stopped; exit "
                                            "124\n"));
}

TEST_F(LaunchTest, RestartsGoOnFromTheCheckpoint) {
  options_.max_restarts = 5;
  for (const std::int64_t iteration : {10, 11}) {
    const auto directory = directory_ / ("made_" + std::to_string(iteration - 10)) /
                           iteration_directory_name(iteration);
    std::filesystem::create_directories(directory);
    std::ofstream(directory / kManifestName) << manifest_text(1, iteration);
  }
  std::filesystem::create_directories(directory_ / "save");
  EXPECT_EQ(run(2,
                "echo attempt $TORCHELASTIC_RESTART_COUNT\n"
                "echo $PHALANX_LAUNCH >>" +
                    here() +
                    "/launches\n"
                    "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0\n"
                    "[ $RANK = 0 ] && sleep 30\n"
                    "cp -r " +
                    here() + "/made_$TORCHELASTIC_RESTART_COUNT/iter_* " + here() +
                    "/save\n"
                    "kill -SEGV $$",
                {"pretrain", "--save", here() + "/save"}),
            0);
  EXPECT_EQ(read("logs/run/attempt_2/rank_1.out"), "attempt 2\n");
  std::istringstream launches(read("launches"));
  std::set<std::string> names;
  for (std::string name; launches >> name;) names.insert(name);
  EXPECT_EQ(names.size(), 1U);
  EXPECT_EQ(summary()["attempts"], 3);
  EXPECT_EQ(summary()["exit"], 0);
  EXPECT_EQ(summary()["attempt_ends"][1]["exit"], 75);
  EXPECT_EQ(summary()["attempt_ends"][1]["culprit"]["reason"], "signal 11");
  EXPECT_THAT(read("console.err"),
              HasSubstr("restart 2 of 5, from the checkpoint of iteration 11\n"));
}

// A rank that saves iterations 10 and 11 and says so, and is killed; `then` are further commands of
// the first attempt. Later attempts end well.
std::string saves_and_dies(const std::string& here, const std::string& then) {
  return "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0\n"
         "mkdir -p " +
         here + "/save; cp -r " + here + "/made/* " + here +
         "/save\n"
         "printf '1 11\\n%s\\n%s' " +
         std::string(32, 'a') + " " + here +
         "/save/iter_0000011 >/proc/self/fd/$PHALANX_LAST_SAVED\n" + then + "\nkill -KILL $$";
}

class LaunchSaved : public LaunchTest {
 protected:
  LaunchSaved() {
    options_.max_restarts = 3;
    options_.save_timeout = std::chrono::milliseconds(0);
    for (const std::int64_t iteration : {10, 11}) {
      const auto directory = directory_ / "made" / iteration_directory_name(iteration);
      std::filesystem::create_directories(directory);
      std::ofstream(directory / kManifestName) << manifest_text(1, iteration);
    }
  }
  int run_and(const std::string& then) {
    return run(1, saves_and_dies(here(), then), {"pretrain", "--save", here() + "/save"});
  }
};

TEST_F(LaunchSaved, ARestartGoesOnWithWhatWasSaved) {
  EXPECT_EQ(run_and(""), 0);
  EXPECT_THAT(read("console.err"),
              HasSubstr("restart 1 of 3, from the checkpoint of iteration 11"));
}

// --save is gone, is an empty mount point, or has an older copy.
TEST_F(LaunchSaved, ARestartDoesNotBeginAnew) {
  for (const auto& [then, instead] :
       {std::pair{"mv $0/save $0/gone", "the directory is not there"},
        std::pair{"rm -r $0/save/*", "there is none of this run"},
        std::pair{"rm -r $0/save/iter_0000011",
                  "the newest of this run there is of iteration 10"}}) {
    options_.run_id = fmt::format("run-{}", std::string_view(instead).size());
    std::string with_path = then;
    while (with_path.find("$0") != std::string::npos) {
      with_path.replace(with_path.find("$0"), 2, here());
    }
    EXPECT_EQ(run_and(with_path), 74);
    const std::string console = read("console.err");
    EXPECT_THAT(console,
                HasSubstr("not started again: the last checkpoint that this job saved, " + here() +
                          "/save/iter_0000011, of iteration 11, is gone: " + instead));
    EXPECT_THAT(console, Not(HasSubstr("from the beginning")));
    EXPECT_THAT(console, EndsWith("what was saved is gone; exit 74\n"));
    const auto json = nlohmann::json::parse(read("logs/" + options_.run_id + "/summary.json"));
    EXPECT_EQ(json["attempts"], 1);
    EXPECT_EQ(json["exit"], 74);
  }
}

// An automount, or somebody who brings it back.
TEST_F(LaunchSaved, IsWaitedFor) {
  options_.save_timeout = kPatience;
  std::jthread mounts([this] {
    wait_until([&] { return read("console.err").find("waiting up to") != std::string::npos; });
    std::filesystem::rename(directory_ / "gone", directory_ / "save");
  });
  EXPECT_EQ(run_and("mv " + here() + "/save " + here() + "/gone"), 0);
  EXPECT_THAT(read("console.err"), HasSubstr("it is there again\n"));
}

TEST_F(LaunchTest, RestartsWithoutProgressEnd) {
  options_.max_restarts = 10;
  EXPECT_EQ(run(1, "exit 74", {"pretrain", "--save=" + here()}), 93);
  EXPECT_EQ(summary()["attempts"], 4);
  EXPECT_EQ(summary()["exit"], 93);
  EXPECT_EQ(summary()["culprit"]["reason"], "exit 74");
  EXPECT_THAT(read("console.err"), HasSubstr("3 restarts wrote no newer checkpoint"));
}

TEST_F(LaunchTest, WithoutSaveNothingIsStartedAgain) {
  options_.max_restarts = 3;
  EXPECT_EQ(run(1, "exit 75"), 75);
  EXPECT_EQ(summary()["attempts"], 1);
  EXPECT_THAT(read("console.err"), HasSubstr("without --save"));
}

// A pre-emption: signals reach the ranks, which save as long as it takes.
class LaunchSignal : public LaunchTest {
 protected:
  // Runs ranks that write their numbers to the file "pids"; when all have, `act` is called.
  int run_and(int ranks, const std::string& script, const std::function<void()>& act) {
    // Blocked as in other threads of a program: the launcher's thread gets the signals.
    const SignalInbox blocked({SIGINT, SIGTERM});
    std::jthread actor([&, this] {
      wait_until([&] { return std::ssize(numbers_in("pids")) == ranks; });
      act();
    });
    return run(ranks, script);
  }
  std::string ready() const { return "echo $$ >>" + here() + "/pids; "; }
};

TEST_F(LaunchSignal, APreemptionWaitsForTheSave) {
  EXPECT_EQ(run_and(2,
                    "trap 'sleep 1; echo saved; exit 85' TERM; " + ready() +
                        "while :; do sleep 0.05; done",
                    [] { ::kill(::getpid(), SIGTERM); }),
            85);
  EXPECT_EQ(read("logs/run/attempt_0/rank_1.out"), "saved\n");
  EXPECT_TRUE(summary()["culprit"].is_null());
  EXPECT_THAT(read("console.err"),
              EndsWith("asked to leave; 2 ranks left; nothing is saved yet; exit 85\n"));
}

TEST_F(LaunchSignal, CtrlCReachesTheRanksAsItIs) {
  options_.max_restarts = 3;
  EXPECT_EQ(
      run_and(1,
              "trap 'exit 85' INT; trap 'exit 1' TERM; " + ready() + "while :; do sleep 0.05; done",
              [] {
                ::kill(::getpid(), SIGINT);
                ::kill(::getpid(), SIGINT);  // doubled
              }),
      85);
}

TEST_F(LaunchSignal, ASecondCtrlCEndsAtOnce) {
  options_.max_restarts = 3;
  EXPECT_EQ(run_and(2, "trap '' INT TERM; " + ready() + "while :; do sleep 0.05; done",
                    [] {
                      ::kill(::getpid(), SIGINT);
                      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
                      ::kill(::getpid(), SIGINT);
                    }),
            130);
  EXPECT_EQ(summary()["exit"], 130);
  for (const int pid : numbers_in("pids")) EXPECT_FALSE(is_alive(pid));
}

// Ranks that do not listen yet lose nothing when they end; nothing is restarted.
TEST_F(LaunchSignal, RanksThatAreNotReadyToSaveEnd) {
  options_.max_restarts = 3;
  EXPECT_EQ(
      run_and(2, ready() + "while :; do sleep 0.05; done", [] { ::kill(::getpid(), SIGTERM); }),
      85);
  EXPECT_EQ(summary()["attempts"], 1);
}

// A launcher as a process of its own, which is sent signals.
class LaunchProcess : public LaunchTest {
 protected:
  ~LaunchProcess() override {
    if (launcher_ > 0) ::kill(launcher_, SIGKILL);
    for (const int pid : numbers_in("pids")) ::kill(pid, SIGKILL);
  }
  // Two ranks, which write their numbers to the file "pids".
  void start(const std::string& script) {
    launcher_ = ::fork();
    if (launcher_ == 0) ::_exit(run(2, "echo $$ >>" + here() + "/pids; " + script));
    ASSERT_TRUE(wait_until([&] { return numbers_in("pids").size() == 2; }));
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(launcher_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  static char state(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(file, line);
    const std::size_t end = line.rfind(") ");
    return end == std::string::npos ? '-' : line[end + 2];
  }
  bool all_are(char wanted) const {
    return std::ranges::all_of(numbers_in("pids"), [&](int pid) { return state(pid) == wanted; });
  }

  int launcher_ = -1;
};

TEST_F(LaunchProcess, RanksDieWithTheirLauncher) {
  start("trap '' TERM INT HUP; while :; do sleep 0.05; done");
  ::kill(launcher_, SIGKILL);
  EXPECT_EQ(wait(), -SIGKILL);
  for (const int pid : numbers_in("pids")) {
    EXPECT_TRUE(wait_until([&] { return !is_alive(pid) || state(pid) == 'Z'; }));
  }
}

// Ctrl-Z: the launcher stops its ranks, too.
TEST_F(LaunchProcess, StopsAndGoesOnWithItsRanks) {
  start("while [ ! -e " + here() + "/end ]; do :; done");
  ::kill(launcher_, SIGTSTP);
  EXPECT_TRUE(wait_until([&] { return state(launcher_) == 'T' && all_are('T'); }));
  std::ofstream(directory_ / "end") << "now";
  ::kill(launcher_, SIGCONT);
  EXPECT_EQ(wait(), 0);
}

TEST_F(LaunchProcess, StacksAreAskedForOfAllRanks) {
  start("trap 'echo stacks; exit 0' QUIT; while :; do sleep 0.05; done");
  ::kill(launcher_, SIGQUIT);
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(read("logs/run/attempt_0/rank_1.out"), "stacks\n");
}

TEST_F(LaunchTest, ManyRanksThatFloodAreAllKept) {
  EXPECT_EQ(run(64,
                "i=0; while [ $i -lt 400 ]; do echo \"line $i of all\" >&2; i=$((i+1)); done; "
                "echo done"),
            0);
  for (int rank = 0; rank < 64; ++rank) {
    const std::string errors = read(fmt::format("logs/run/attempt_0/rank_{}.err", rank));
    EXPECT_EQ(std::ranges::count(errors, '\n'), 400) << rank;
    EXPECT_EQ(read(fmt::format("logs/run/attempt_0/rank_{}.out", rank)), "done\n") << rank;
  }
}

TEST_F(LaunchTest, AConsoleThatIsGoneEndsNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  options_.ranks = 2;
  options_.command = {"-c", "yes | head -c 300000; echo error >&2; exit 0"};
  LaunchSetup broken = setup();
  broken.output = ends[1];
  broken.error = ends[1];
  EXPECT_EQ(launch(options_, broken), 0);
  ::close(ends[1]);
}

// Nobody reads the console, and nobody closes it: ranks that print there wait, the launcher does
// not.
TEST_F(LaunchTest, AConsoleThatIsHeldDoesNotKeepFromWatching) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  options_.ranks = 2;
  options_.command = {"-c", "[ $RANK = 0 ] && exec yes; sleep 0.3; exit 66"};
  LaunchSetup held = setup();
  held.output = ends[1];
  EXPECT_EQ(launch(options_, held), 66);
  ::close(ends[0]);
  ::close(ends[1]);
}

// Ranks whose log goes there do not wait either: they would stand still, and count as hanging.
TEST_F(LaunchTest, AConsoleThatNobodyReadsHoldsNoRank) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  options_.log_directory.clear();
  options_.ranks = 2;
  options_.command = {
      "-c", "[ $RANK = 1 ] || yes | head -c 3000000 >&2; touch " + here() + "/ended_$RANK"};
  LaunchSetup held = setup();
  held.output = ends[1];
  held.error = ends[1];
  EXPECT_EQ(launch(options_, held), 0);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "ended_0"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(LaunchTest, ResultsWaitForTheirReader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  options_.ranks = 1;
  options_.command = {"-c", "yes | head -c 3000000"};
  LaunchSetup slow = setup();
  slow.output = ends[1];
  std::size_t count = 0;
  std::thread reader([&] {
    std::array<char, 65536> bytes{};
    while (count < 3000000) {
      const auto got = ::read(ends[0], bytes.data(), bytes.size());
      if (got <= 0) break;
      count += static_cast<std::size_t>(got);
    }
  });
  EXPECT_EQ(launch(options_, slow), 0);
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(count, 3000000U);
}

TEST_F(LaunchTest, LogsThatCannotBeWrittenAreToldBeforeTheStart) {
  std::ofstream(directory_ / "file") << "x";
  options_.log_directory = directory_ / "file";
  EXPECT_THROW(run(1, "touch " + here() + "/started"), OutputError);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "started"));
}

TEST_F(LaunchTest, AFullLogDiskEndsNothing) {
  // A limit of file sizes refuses writes as a full disk does.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const int status =
      run(2, "echo one; [ $RANK = 1 ] && seq 10000; sleep 0.1; [ $RANK = 1 ] && seq 9; echo two");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read("logs/run/attempt_0/rank_0.out"), "one\ntwo\n");
  const std::string console = read("console.err");
  EXPECT_THAT(console, HasSubstr("rank_1.out: cannot be written: File too large"));
  EXPECT_EQ(console.find("cannot be written"), console.rfind("cannot be written"));
}

TEST_F(LaunchTest, AProgramThatIsNotThereIsTold) {
  options_.ranks = 2;
  options_.command = {"x"};
  LaunchSetup absent = setup();
  absent.program = "/nowhere/phalanx";
  EXPECT_THAT(error_of<SystemError>([&] { launch(options_, absent); }),
              HasSubstr("/nowhere/phalanx cannot be executed: No such file"));
}

TEST_F(LaunchTest, ProcessesThatAreRefusedAreToldWithTheLimit) {
  if (::getuid() == 0) GTEST_SKIP() << "root has no limit of processes";
  rlimit before{};
  ::getrlimit(RLIMIT_NPROC, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NPROC, &none);
  EXPECT_THROW(run(2, "sleep 30"), SystemError);
  ::setrlimit(RLIMIT_NPROC, &before);
}

TEST_F(LaunchTest, TeeAndFilterDecideWhatTheConsoleShows) {
  options_.tee = StreamChoice::parse("--tee", "1:3");
  options_.redirects = StreamChoice::parse("--redirects", "0:1");
  EXPECT_EQ(run(3, "echo out $RANK; echo err $RANK >&2"), 0);
  EXPECT_EQ(read("console.out"), "[rank 1] out 1\n");
  EXPECT_THAT(read("console.err"), HasSubstr("[rank 1] err 1\n"));
  EXPECT_THAT(read("console.err"), HasSubstr("err 0\n"));
  EXPECT_THAT(read("console.err"), HasSubstr("[rank 2] err 2\n"));
  options_.tee = {};
  options_.redirects = {};
  options_.console_ranks = std::set<int>{1};
  EXPECT_EQ(run(3, "echo out $RANK; echo err $RANK >&2"), 0);
  EXPECT_EQ(read("console.out"), "out 1\n");
  EXPECT_THAT(read("console.err"), Not(HasSubstr("err 2\n")));
}

}  // namespace
}  // namespace phalanx::launch
