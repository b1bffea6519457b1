// Several launchers of one run, as threads: what they exchange and decide together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "phalanx/base/error.h"
#include "phalanx/launch/node_board.h"
#include "phalanx/launch/stage_texts.h"
#include "phalanx/launch/test_support.h"

namespace phalanx::launch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr auto kPace = std::chrono::milliseconds(2);

// Member::gather() between threads.
class Meeting {
 public:
  explicit Meeting(int nodes) : nodes_(nodes), texts_(static_cast<std::size_t>(nodes)) {}

  std::vector<std::string> gather(int node, std::string mine) {
    std::unique_lock lock(mutex_);
    if (is_broken_) throw UnavailableError("node 1 does not answer");
    texts_[static_cast<std::size_t>(node)] = std::move(mine);
    const int round = round_;
    if (++here_ == nodes_) {
      here_ = 0;
      ++round_;
      of_round_ = texts_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || is_broken_; });
    if (round_ == round) throw UnavailableError("node 1 does not answer");
    return of_round_;
  }
  void break_off() {
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
    changed_.notify_all();
  }
  GatherTexts of(int node) {
    return [this, node](std::string mine) { return gather(node, std::move(mine)); };
  }

 private:
  int nodes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, of_round_;
  int here_ = 0;
  int round_ = 0;
  bool is_broken_ = false;
};

std::vector<std::string> wait_for(const NodeBoard& board, int stage) {
  while (true) {
    if (auto texts = board.texts(stage)) return *texts;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(NodeBoard, ShowsEverybodysTextOfAStage) {
  constexpr int kNodes = 3;
  Meeting meeting(kNodes);
  std::vector<std::jthread> launchers;
  for (int node = 0; node < kNodes; ++node) {
    launchers.emplace_back([&, node] {
      NodeBoard board(kNodes, meeting.of(node), kPace);
      for (int stage = 0; stage < 20; ++stage) {
        board.post(stage, fmt::format("{} of {}", node, stage));
        const auto texts = wait_for(board, stage);
        for (int other = 0; other < kNodes; ++other) {
          EXPECT_EQ(texts[static_cast<std::size_t>(other)], fmt::format("{} of {}", other, stage));
        }
      }
    });
  }
}

TEST(NodeBoard, TellsWhoIsGone) {
  Meeting meeting(2);
  std::jthread other([&] {
    NodeBoard board(2, meeting.of(1), kPace);
    board.post(0, "here");
    wait_for(board, 0);
  });
  NodeBoard board(2, meeting.of(0), kPace);
  board.post(0, "here");
  wait_for(board, 0);
  board.post(1, "");
  EXPECT_THROW(wait_for(board, 1), Error);
  EXPECT_THAT(board.lost(), HasSubstr("node 1"));
}

// Many launchers without threads: each hears all others, round after round.
TEST(StageTexts, OfManyLaunchersComeToAll) {
  constexpr int kNodes = 300;
  std::vector<StageTexts> launchers(kNodes, StageTexts(kNodes));
  const auto round = [&] {
    std::vector<std::string> said;
    for (const StageTexts& launcher : launchers) said.push_back(launcher.mine());
    int changed = 0;
    for (StageTexts& launcher : launchers) changed += launcher.on_round(said).has_changed ? 1 : 0;
    return changed;
  };
  for (int node = 0; node < kNodes; ++node) {
    launchers[static_cast<std::size_t>(node)].post(0, fmt::format("n{}", node));
  }
  EXPECT_EQ(launchers[7].texts(0), std::nullopt);
  EXPECT_EQ(round(), kNodes);
  const auto texts = launchers[7].texts(0);
  ASSERT_TRUE(texts);
  EXPECT_EQ((*texts)[299], "n299");
  EXPECT_EQ(round(), 0);
  launchers[5].post(1, "ahead");
  EXPECT_EQ(round(), kNodes);
  EXPECT_EQ(launchers[0].texts(1), std::nullopt);
  EXPECT_EQ(launchers[0].latest(1)[5], "ahead");
  launchers[5].say_goodbye();
  EXPECT_EQ(round(), kNodes - 1);
  EXPECT_THAT(launchers[0].lost(), HasSubstr("node 5"));
  EXPECT_THROW(launchers[0].texts(1), Error);
  EXPECT_TRUE(launchers[0].texts(0));
}

class LaunchNodes : public LaunchTest {
 protected:
  static constexpr int kNodes = 2;

  // Two launchers at the same time, whose ranks run the script; their exit statuses.
  std::vector<int> run_nodes(int ranks, const std::string& script, int max_restarts = 0) {
    std::vector<std::future<int>> statuses;
    for (int node = 0; node < kNodes; ++node) {
      statuses.push_back(std::async(
          std::launch::async, [&, node] { return run_node(node, ranks, script, max_restarts); }));
    }
    std::vector<int> results;
    for (auto& status : statuses) results.push_back(status.get());
    return results;
  }

  int run_node(int node, int ranks, const std::string& script, int max_restarts) {
    LaunchOptions options = options_;
    options.ranks = ranks + node;  // not as many everywhere
    options.nodes = kNodes;
    options.node = node;
    options.max_restarts = max_restarts;
    options.command = {"-c", script, "pretrain", "--save", here()};
    LaunchSetup setup;
    setup.program = "/bin/sh";
    setup.host = fmt::format("n{}", node);
    setup.grace = grace_;
    setup.others_patience = others_patience_;
    setup.make_group = [&](const std::string&, const std::function<void()>&) {
      return std::make_unique<NodeGroup>(NodeGroupParts{.nodes = kNodes,
                                                        .node = node,
                                                        .verdicts = nullptr,
                                                        .server = nullptr,
                                                        .endpoint = "tcp:none:1",
                                                        .gather = meeting_.of(node),
                                                        .give_up =
                                                            [&](const std::string& reason) {
                                                              reason_ = reason;
                                                              meeting_.break_off();
                                                            },
                                                        .pace = kPace});
    };
    const FileDescriptor output(open_file(fmt::format("console{}.out", node)));
    const FileDescriptor error(open_file(fmt::format("console{}.err", node)));
    setup.output = output.get();
    setup.error = error.get();
    try {
      return launch(options, setup);
    } catch (const Error& fault) {
      return fault.exit_status();
    }
  }

  Meeting meeting_{kNodes};
  std::chrono::milliseconds others_patience_ = std::chrono::minutes(2);
  std::string reason_;  // why a launcher has given up
};

TEST_F(LaunchNodes, RanksAreCountedOverTheNodes) {
  EXPECT_THAT(run_nodes(2,
                        "echo $RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE "
                        "$GROUP_WORLD_SIZE"),
              testing::ElementsAre(0, 0));
  EXPECT_EQ(read("logs/run/attempt_0/rank_1.out"), "1 1 0 5 2 2\n");
  EXPECT_EQ(read("logs/run/attempt_0/rank_4.out"), "4 2 1 5 3 2\n");
  EXPECT_EQ(summary()["world_size"], 5);
}

TEST_F(LaunchNodes, AFailureOfOneNodeEndsAll) {
  EXPECT_THAT(run_nodes(1, "if [ $RANK = 2 ]; then echo 'error: x' >&2; exit 66; fi; sleep 60"),
              testing::ElementsAre(66, 66));
  EXPECT_EQ(summary()["culprit"]["rank"], 2);
  EXPECT_EQ(summary()["culprit"]["host"], "n1");
  EXPECT_EQ(summary()["culprit"]["message"], "error: x");
  for (const char* console : {"console0.err", "console1.err"}) {
    EXPECT_THAT(read(console), EndsWith("phalanx launch: rank 2 (host n1) ended with exit code 66; "
                                        "2 other ranks stopped; exit 66\n"));
  }
}

TEST_F(LaunchNodes, AllStartAgainTogether) {
  EXPECT_THAT(run_nodes(1,
                        "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; "
                        "[ $RANK = $TORCHELASTIC_RESTART_COUNT ] && exit 75; sleep 60; exit 66",
                        5),
              testing::ElementsAre(0, 0));
  EXPECT_EQ(summary()["attempts"], 3);
  EXPECT_EQ(summary()["attempt_ends"][0]["culprit"]["rank"], 0);
  EXPECT_EQ(summary()["attempt_ends"][1]["culprit"]["rank"], 1);
}

// Node 0 knows what was saved.
TEST_F(LaunchNodes, NoneStartsAgainWhereWhatWasSavedIsGone) {
  options_.save_timeout = std::chrono::milliseconds(0);
  EXPECT_THAT(run_nodes(1,
                        "[ $RANK = 0 ] || sleep 60; printf '1 11\\nid\\n" + here() +
                            "/iter_0000011' >/proc/self/fd/$PHALANX_LAST_SAVED; exit 74",
                        5),
              testing::ElementsAre(74, 74));
  EXPECT_EQ(summary()["attempts"], 1);
  for (const char* console : {"console0.err", "console1.err"}) {
    EXPECT_THAT(read(console), HasSubstr("iter_0000011, of iteration 11, is gone"));
    EXPECT_THAT(read(console), EndsWith("what was saved is gone; exit 74\n"));
  }
}

TEST_F(LaunchNodes, ALauncherThatIsGoneEndsTheOthers) {
  std::jthread cut([&] {
    while (numbers_in("pids").size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting_.break_off();
  });
  EXPECT_THAT(run_nodes(1, "echo $$ >>" + here() + "/pids; sleep 60"),
              testing::ElementsAre(75, 75));
  for (const int pid : numbers_in("pids")) EXPECT_NE(::kill(pid, 0), 0);
  EXPECT_EQ(summary()["exit"], 75);
  EXPECT_TRUE(summary()["culprit"].is_null());
}

// A launcher that learns of a failed rank, and never reports how its own ranks have ended.
TEST_F(LaunchNodes, ALauncherThatHangsIsNotWaitedForForEver) {
  others_patience_ = std::chrono::milliseconds(200);
  std::jthread other([&](const std::stop_token& stop) {
    NodeBoard board(kNodes, meeting_.of(1), kPace);
    board.post(0, R"({"host": "n1", "ranks": 2, "nodes": 2, "max_restarts": 0, "has_save": true,
                      "run_name": "run"})");
    wait_for(board, 0);
    board.post(1, "");
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(run_node(0, 1, "exit 70", 0), 75);
  EXPECT_EQ(reason_, "the launcher of node 1 hangs: it has not said for 0.2 s how its ranks ended");
  EXPECT_EQ(summary()["exit"], 75);
}

TEST_F(LaunchNodes, FlagsThatDifferAreRefusedByAll) {
  auto other = std::async(std::launch::async, [&] { return run_node(1, 1, "exit 0", 3); });
  EXPECT_EQ(run_node(0, 1, "exit 0", 2), 78);
  EXPECT_EQ(other.get(), 78);
}

}  // namespace
}  // namespace phalanx::launch
