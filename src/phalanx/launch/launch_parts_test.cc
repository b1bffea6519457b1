// The small parts of the launcher.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/launch/interruptions.h"
#include "phalanx/launch/log_directory.h"
#include "phalanx/launch/oom_killer.h"
#include "phalanx/launch/repeated_lines.h"
#include "phalanx/launch/saved_progress.h"
#include "phalanx/launch/stream_plan.h"
#include "phalanx/launch/summary.h"
#include "phalanx/launch/test_support.h"

namespace phalanx::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

class Files : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name) << text;
  }

  const TemporaryDirectory temporary_{"launch_parts"};
  const std::filesystem::path directory_ = temporary_.path();
};

TEST(RepeatedLines, AreToldOnceWithTheirRanks) {
  RepeatedLines lines;
  const RepeatedLines::Clock::time_point now{};
  const auto later = now + std::chrono::seconds(1);
  EXPECT_EQ(lines.next(), RepeatedLines::Clock::time_point::max());
  for (int rank = 1; rank < 64; ++rank) lines.add(rank, "error: rank 0 is gone", now);
  lines.add(5, "warning: slow", now);
  EXPECT_THAT(lines.take(now), IsEmpty());
  EXPECT_GT(lines.next(), now);
  EXPECT_THAT(lines.take(later),
              ElementsAre("[ranks 1-63] error: rank 0 is gone (x63)", "[rank 5] warning: slow"));
  lines.add(3, "warning: slow", later);
  EXPECT_THAT(lines.take(later + std::chrono::seconds(1)), IsEmpty());
  EXPECT_THAT(lines.take(later, true), ElementsAre("[ranks] the same again: 1 lines"));
  EXPECT_EQ(ranks_text({4, 0, 2, 3, 9}), "0, 2-4, 9");
}

TEST(RepeatedLines, AFloodIsBounded) {
  RepeatedLines lines;
  const RepeatedLines::Clock::time_point now{};
  for (int i = 0; i < 100000; ++i) lines.add(1, std::to_string(i), now);
  const auto told = lines.take(now, true);
  EXPECT_LT(told.size(), 1000U);
  EXPECT_THAT(told.back(), MatchesRegex(".*[0-9]+ more lines are not shown.*"));
}

TEST(StreamPlan, TheConsoleShowsTheRankThatLogs) {
  LaunchOptions options;
  options.ranks = 2;
  const RankStreams first = plan_streams(options, 0, 0, false);
  EXPECT_EQ(first.output.console, ConsoleMode::kRaw);
  EXPECT_EQ(first.error.console, ConsoleMode::kRaw);
  EXPECT_FALSE(first.error.is_inherited);
  EXPECT_FALSE(first.output.has_file);
  const RankStreams other = plan_streams(options, 0, 2, false);  // of another node
  EXPECT_EQ(other.output.console, ConsoleMode::kNothing);
  EXPECT_EQ(other.error.console, ConsoleMode::kErrors);
  // A progress bar needs the terminal itself.
  EXPECT_TRUE(plan_streams(options, 0, 0, true).error.is_inherited);
  EXPECT_FALSE(plan_streams(options, 0, 0, true).output.is_inherited);
  EXPECT_FALSE(plan_streams(options, 1, 1, true).error.is_inherited);
  options.log_directory = "logs";
  EXPECT_FALSE(plan_streams(options, 0, 0, true).error.is_inherited);
  EXPECT_TRUE(plan_streams(options, 0, 0, true).error.has_file);
}

TEST(Interruptions, ASecondCtrlCCountsASecondLater) {
  Interruptions signals({SIGINT, SIGTERM});
  const Interruptions::Clock::time_point now{};
  EXPECT_EQ(signals.on_signal(SIGUSR1, now), std::nullopt);
  EXPECT_EQ(signals.on_signal(SIGINT, now), Interruption::kStop);
  EXPECT_EQ(signals.signal_for_ranks(), SIGINT);
  EXPECT_EQ(signals.on_signal(SIGINT, now + std::chrono::milliseconds(300)), std::nullopt);
  EXPECT_EQ(signals.on_signal(SIGTERM, now + std::chrono::seconds(5)), std::nullopt);
  EXPECT_EQ(signals.on_signal(SIGINT, now + std::chrono::seconds(5)), Interruption::kEndAtOnce);
}

TEST(Interruptions, SigtermIsNoCtrlC) {
  Interruptions signals({SIGINT, SIGTERM});
  const Interruptions::Clock::time_point now{};
  EXPECT_EQ(signals.on_signal(SIGTERM, now), Interruption::kStop);
  EXPECT_EQ(signals.on_signal(SIGTERM, now + std::chrono::seconds(5)), std::nullopt);
  EXPECT_EQ(signals.signal_for_ranks(), SIGTERM);
  // The first Ctrl-C; other signals before it do not count.
  EXPECT_EQ(signals.on_signal(SIGINT, now + std::chrono::seconds(6)), std::nullopt);
  EXPECT_EQ(signals.on_signal(SIGINT, now + std::chrono::seconds(8)), Interruption::kEndAtOnce);
}

TEST(Interruptions, SigquitAsksForStacksUnlessItIsToStop) {
  Interruptions signals({SIGINT});
  EXPECT_EQ(signals.on_signal(SIGQUIT, {}), Interruption::kStacks);
  Interruptions stops({SIGQUIT});
  EXPECT_EQ(stops.on_signal(SIGQUIT, {}), Interruption::kStop);
}

TEST_F(Files, TheSaveDirectoryIsTheCommands) {
  write("run.yaml", "training:\n  save: from_yaml\n");
  const std::string yaml = (directory_ / "run.yaml").string();
  EXPECT_EQ(save_directory_of({"pretrain", "gpt"}), "");
  EXPECT_EQ(save_directory_of({"pretrain", "--save", "a", "--save=b"}), "b");
  EXPECT_EQ(save_directory_of({"pretrain", "--save-interval", "5"}), "");
  EXPECT_EQ(save_directory_of({"pretrain", "--yaml-cfg", yaml}), "from_yaml");
  EXPECT_EQ(save_directory_of({"pretrain", "--yaml_cfg=" + yaml, "--save", "own"}), "own");
  EXPECT_EQ(save_directory_of({"pretrain", "--yaml-cfg", "nowhere.yaml"}), "");
}

// A crash may leave an old tracker: only complete manifests count.
TEST_F(Files, TheNewestCheckpointIsFoundByManifests) {
  EXPECT_EQ(newest_checkpoint(""), std::nullopt);
  EXPECT_EQ(newest_checkpoint(directory_ / "nowhere"), std::nullopt);
  write("latest_checkpointed_iteration.txt", "120");
  EXPECT_EQ(newest_checkpoint(directory_), std::nullopt);
  const auto save = [&](std::int64_t start, std::int64_t iteration) {
    write(iteration_directory_name(iteration) + "/manifest.json", manifest_text(start, iteration));
  };
  save(1, 10);
  save(1, 20);
  EXPECT_EQ(newest_checkpoint(directory_), (SavedProgress{.start = 1, .iteration = 20}));
  save(2, 15);
  EXPECT_EQ(newest_checkpoint(directory_), (SavedProgress{.start = 2, .iteration = 15}));
  write("iter_0000015/manifest.json", "half of a mani");
  EXPECT_EQ(newest_checkpoint(directory_), (SavedProgress{.start = 1, .iteration = 20}));
}

// Two runs of one name would write into each other's files.
TEST_F(Files, ARunsLogsHaveOneLauncherOfEachNode) {
  const LogDirectory logs(directory_, "one", 0);
  EXPECT_NO_THROW(LogDirectory(directory_, "one", 1));
  EXPECT_NO_THROW(LogDirectory(directory_, "two", 0));
  EXPECT_THAT(error_of<DirectoryInUseError>([&] { LogDirectory(directory_, "one", 0); }),
              testing::AllOf(HasSubstr("--rdzv-id one is taken: the folder"),
                             HasSubstr("in use by process " + std::to_string(::getpid()))));
}

TEST_F(Files, OomKillsAreTheControlGroups) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/job/memory.events", "oom 4\noom_kill 3\n");
  EXPECT_EQ(oom_kills(directory_), 3);
  EXPECT_EQ(oom_kills(directory_ / "nowhere"), 0);
  write("proc/self/cgroup", "3:memory:/job\n");
  write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(oom_kills(directory_), 2);
}

// With version 2 the root group has no such file; there may also be no group.
TEST_F(Files, OomKillsAreTheMachinesWhereNoGroupCounts) {
  write("proc/vmstat", "nr_free_pages 5\noom_kill 7\npgfault 1\n");
  EXPECT_EQ(oom_kills(directory_), 7);
  write("proc/self/cgroup", "0::/\n");
  write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  EXPECT_EQ(oom_kills(directory_), 7);
}

TEST_F(Files, LogsAreNotWrittenThroughLinks) {
  BackgroundWriter writer;
  write("treasure", "gold");
  std::filesystem::create_directories(directory_ / "elsewhere");
  const auto refusal = [](const auto& body) -> std::string {
    return error_of<OutputError>([&] { body(); });
  };
  std::filesystem::create_symlink("treasure", directory_ / "rank_0.out");
  EXPECT_THAT(refusal([&] { const LogFile file(directory_ / "rank_0.out", writer, 4096); }),
              testing::EndsWith("rank_0.out: cannot be written: it is a link; give another "
                                "--log-dir"));
  ASSERT_EQ(::mkfifo((directory_ / "rank_1.out").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { const LogFile file(directory_ / "rank_1.out", writer, 4096); }),
              HasSubstr("rank_1.out: "));
  std::filesystem::create_symlink("elsewhere", directory_ / "run");
  EXPECT_THAT(refusal([&] { const LogDirectory logs(directory_, "run", 0); }),
              testing::EndsWith("run: is a link, not a directory; give another --log-dir"));
  const LogDirectory logs(directory_, "own", 0);
  std::filesystem::create_symlink("../elsewhere", logs.path() / "attempt_0");
  EXPECT_THAT(refusal([&] { logs.make_attempt(0); }), HasSubstr("attempt_0: is a link"));
  std::ifstream treasure(directory_ / "treasure");
  std::string text;
  treasure >> text;
  EXPECT_EQ(text, "gold");
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "elsewhere"));
}

TEST_F(Files, LogsOfAnotherUserAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write("rank_0.out", "");
  ASSERT_EQ(::chown((directory_ / "rank_0.out").c_str(), 65534, 65534), 0);
  BackgroundWriter writer;
  EXPECT_THROW(LogFile(directory_ / "rank_0.out", writer, 4096), OutputError);
  std::filesystem::create_directories(directory_ / "run");
  ASSERT_EQ(::chown((directory_ / "run").c_str(), 65534, 65534), 0);
  EXPECT_THROW(LogDirectory(directory_, "run", 0), OutputError);
}

// A run of the same name appends to them.
TEST_F(Files, LogsThatAreThereAreAddedTo) {
  for (int time = 0; time < 2; ++time) {
    const LogDirectory logs(directory_, "run", 0);
    BackgroundWriter writer;
    LogFile file(logs.make_attempt(0) / "rank_0.out", writer, 4096);
    file.write("x");
    writer.flush(std::chrono::seconds(60), std::chrono::seconds(60));
    EXPECT_EQ(file.take_fault(), "");
  }
  EXPECT_EQ(std::filesystem::file_size(directory_ / "run/attempt_0/rank_0.out"), 2U);
}

TEST(RunNames, AreTheStartAndRandomDigits) {
  EXPECT_THAT(new_run_name(), MatchesRegex("[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"));
  EXPECT_NE(new_run_name(), new_run_name());
}

TEST(Summary, HasWhatScriptsRelyOn) {
  RunSummary summary{.run = "r1", .world_size = 4, .exit_status = 0, .attempts = {}};
  summary.attempts.push_back({.attempt = 0,
                              .exit_status = 75,
                              .culprit = Culprit{.rank = 2,
                                                 .host = "n0",
                                                 .reason = "signal 9",
                                                 .text = "rank 2 (host n0) was killed by SIGKILL",
                                                 .message = "last \xff words",
                                                 .detected_after_seconds = 0.5}});
  const auto failed = nlohmann::json::parse(summary_json(summary));
  EXPECT_EQ(failed["culprit"]["rank"], 2);
  summary.attempts.push_back({.attempt = 1, .exit_status = 0, .culprit = {}});
  const auto json = nlohmann::json::parse(summary_json(summary));
  EXPECT_EQ(json["run"], "r1");
  EXPECT_EQ(json["attempts"], 2);
  EXPECT_EQ(json["exit"], 0);
  EXPECT_EQ(json["world_size"], 4);
  EXPECT_TRUE(json["culprit"].is_null());
  const auto culprit = json["attempt_ends"][0]["culprit"];
  EXPECT_EQ(json["attempt_ends"][0]["attempt"], 0);
  EXPECT_EQ(json["attempt_ends"][0]["exit"], 75);
  EXPECT_EQ(culprit["host"], "n0");
  EXPECT_EQ(culprit["attempt"], 0);
  EXPECT_EQ(culprit["reason"], "signal 9");
  EXPECT_EQ(culprit["detected_after_s"], 0.5);
}

}  // namespace
}  // namespace phalanx::launch
