// Signals outside of training steps: evaluations are given up between two microbatches, on all
// ranks at the same one, and so is the making of the data's order.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/file_lock.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr Layout kOne{};
constexpr Layout kTensor{.name = "t2", .tensor = 2};
constexpr Layout kPipeline{.name = "p2", .pipeline = 2};
constexpr Layout kBoth{.name = "t2-d2-p2", .tensor = 2, .data = 2, .pipeline = 2};

// The evaluations would take minutes: a run that ends them ignores the signal.
constexpr std::int64_t kEndless = 100000;

class StoppingTest : public RunTest {
 protected:
  // In the order of the file, which does not depend on how much is evaluated.
  TrainConfig config(const Layout& layout, const std::string& save) const {
    return with_layout(
        with_flags(RunTest::config(save),
                   "--micro-batch-size 1 --num-layers 4 --train-iters 4 --data-order sequential"),
        layout);
  }

  // The results of evaluations and iterations, in order.
  std::vector<std::string> story(const std::string& save) const {
    std::vector<std::string> lines;
    for (const Json& line : metrics(save)) {
      lines.push_back(fmt::format("{} {} {}", line.at("iteration").dump(), line.value("eval", ""),
                                  line.at("lm_loss").dump()));
    }
    return lines;
  }
};

// The evaluation that was given up comes first when the run resumes. The result is that of the
// uninterrupted run.
TEST_F(StoppingTest, AnEvaluationIsGivenUpAndMadeUpFor) {
  for (const Layout& layout : {kOne, kTensor, kPipeline, kBoth}) {
    const std::string whole = layout.name;
    train(config(layout, whole));
    TrainConfig c = config(layout, whole + "-parts");
    c.run.load = c.run.save;
    c.run.eval_iters = kEndless;
    EXPECT_EQ(stop_after(c, "\"iteration\": 2"), RunEnd::kPreempted) << whole;
    const Manifest stopped = CheckpointReader::open(c.run.save).manifest();
    EXPECT_EQ(stopped.iteration, 2);
    EXPECT_EQ(stopped.consumed_valid_samples, 0);
    EXPECT_EQ(story(whole + "-parts").size(), 2U);
    c.run.eval_iters = 1;
    train(c);
    EXPECT_EQ(story(whole + "-parts"), story(whole));
    EXPECT_TRUE(equal(whole + "-parts", whole));
    EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().consumed_valid_samples, 2 * 4);
  }
}

// Another process holds the lock of the directory of files. A run that waits for the lock ends on a
// signal.
TEST_F(StoppingTest, ARunThatWaitsForItsDirectoryOfFilesListens) {
  TrainConfig c = config({.name = "d2", .data = 2, .sharded = true}, "");
  c.layout.offload_optimizer_to = path("disk");
  std::filesystem::create_directories(path("disk"));
  const std::string guard = path("disk/.phalanx-storage");
  const int descriptor = ::open(guard.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(try_lock(descriptor, 0), FileLock::kTaken);
  // Ranks are separate threads, and they ask for the signal while they wait.
  const auto main_thread = std::this_thread::get_id();
  std::atomic<bool> is_waiting = false;
  const auto stop = [&] {
    if (std::this_thread::get_id() != main_thread) is_waiting = true;
    return is_waiting ? SIGTERM : 0;
  };
  EXPECT_EQ(pretrain(c, stop), RunEnd::kPreempted);
  EXPECT_TRUE(is_waiting);
  ::close(descriptor);
}

// Also where only the evaluation is left.
TEST_F(StoppingTest, TheLastIterationsEvaluationIsMadeUpFor) {
  train(config(kOne, "whole"));
  TrainConfig c = config(kOne, "parts");
  c.run.load = c.run.save;
  c.run.eval_interval = 4;
  c.run.eval_iters = kEndless;
  EXPECT_EQ(stop_after(c, "\"iteration\": 4"), RunEnd::kPreempted);
  c.run.eval_iters = 1;
  train(c);
  EXPECT_EQ(story("parts").size(), 4U + 3U);
  EXPECT_TRUE(equal("parts", "whole"));
  // A second resume does not evaluate again.
  const auto told = story("parts");
  train(c);
  EXPECT_EQ(story("parts"), told);
}

TEST_F(StoppingTest, TheFinalEvaluationIsGivenUp) {
  TrainConfig c = with_flags(config(kPipeline, "run"), "--eval-interval 0");
  c.run.eval_iters = kEndless;
  EXPECT_EQ(stop_after(c, "\"iteration\": 4"), RunEnd::kPreempted);
  EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().iteration, 4);
  EXPECT_EQ(story("run").size(), 4U);
}

// All ranks stop at the same microbatch, whichever rank is asked and wherever the others are. Here
// only the first or only the last one is asked.
TEST_F(StoppingTest, AllRanksLeaveOutTheSameMicrobatches) {
  const std::vector<Layout> layouts = {
      kOne,
      kTensor,
      kPipeline,
      kBoth,
      Layout{.name = "p4", .pipeline = 4},
      Layout{.name = "p2-interleaved", .pipeline = 2, .chunks = 2},
      Layout{.name = "p2-zb-v", .pipeline = 2, .schedule = "zb-v"}};
  for (const Layout& layout : layouts) {
    TrainConfig c = config(layout, "");
    c.layout.global_batch_size = 24 * layout.data;
    c.run.distributed_timeout_minutes = 0.5;
    const RunSetup setup(c);
    const auto world_size = static_cast<int>(setup.config.layout.world_size);
    for (const int asking : std::set<int>{0, world_size - 1}) {
      std::vector<int> outcomes(static_cast<std::size_t>(world_size));
      run_ranks(setup.config, *setup.model, [&](Rank& rank) {
        rank.initialise();
        int& given_up = outcomes[static_cast<std::size_t>(rank.ranks().world->rank())];
        for (const int at : {0, 1, 2, 7, 20, 23, 24}) {
          RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
          int asked = 0;
          const auto stop = [&] { return rank.ranks().world->rank() == asking && asked++ == at; };
          const auto result = rank.evaluate_unless(stop, stream.source());
          if (!result) ++given_up;
          // The next evaluation and collective work as before.
          EXPECT_GT(rank.largest_of_all(at + 1), at);
        }
        RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
        RunData::Stream same(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
        const auto listening = rank.evaluate_unless([] { return false; }, stream.source());
        ASSERT_TRUE(listening);
        EXPECT_EQ(listening->loss(), rank.evaluate(same.source()).loss());
      });
      // Six of the seven evaluations are given up: one is asked only after its last microbatch.
      EXPECT_EQ(outcomes, std::vector<int>(outcomes.size(), 6)) << layout.name;
    }
  }
}

// The signal comes while the data's order is built: no rank has begun.
TEST_F(StoppingTest, MakingTheOrderListens) {
  const auto stops_after = [](const TrainConfig& c, int asked) -> std::string {
    int times = 0;
    try {
      const RunSetup setup(c, [&] { return ++times > asked; });
    } catch (const StoppedEarly&) {
      return "stopped";
    }
    return "made";
  };
  TrainConfig c = RunTest::config("run");
  EXPECT_EQ(stops_after(c, 1000), "made");
  for (const int asked : {0, 1, 2}) EXPECT_EQ(stops_after(c, asked), "stopped");
}

// Nothing is lost before the first step, with and without --save.
TEST_F(StoppingTest, BeforeTheFirstStepNothingIsLost) {
  for (const char* save : {"run", ""}) {
    const TrainConfig c = RunTest::config(save);
    const fs::path checkpoint = fs::path(path("run")) / iteration_directory_name(1);
    int asked = 0;  // until the first step is made
    for (RunEnd end = RunEnd::kPreempted;
         end == RunEnd::kPreempted && (c.run.save.empty() || !fs::exists(checkpoint)); ++asked) {
      int times = 0;
      end = pretrain(c, [&] { return ++times > asked ? SIGTERM : 0; });
      EXPECT_TRUE(end == RunEnd::kPreempted || c.run.save.empty()) << asked;
    }
    EXPECT_GT(asked, 2) << save;
  }
}

// If the signal comes during a save, no step follows: that checkpoint is the last one.
TEST_F(StoppingTest, ASaveUnderWayIsTheLast) {
  TrainConfig c = with_flags(config(kOne, "run"), "--eval-iters 0 --save-interval 2");
  const fs::path saved = fs::path(path("run")) / iteration_directory_name(2);
  EXPECT_EQ(pretrain(c, [&] { return fs::exists(saved) ? SIGTERM : 0; }), RunEnd::kPreempted);
  EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().iteration, 2);
  EXPECT_EQ(training_metrics("run").size(), 2U);
}

}  // namespace
}  // namespace phalanx
