#include "phalanx/train/run_times.h"

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/metrics/tensorboard_test_support.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class RunTimesTest : public RunTest {
 protected:
  static std::string said_by(const TrainConfig& c) {
    testing::internal::CaptureStderr();
    train(c);
    return testing::internal::GetCapturedStderr();
  }
  // Two stages of two ranks, with a sharded optimizer.
  TrainConfig of_four(const std::string& save) const {
    return with_layout(config(save), {.data = 2, .sharded = true, .pipeline = 2});
  }
  // The lines from the one that begins with `first` to the next that is not indented.
  static std::string block(const std::string& text, const std::string& first) {
    const auto begin = text.find("\n" + first);
    EXPECT_NE(begin, std::string::npos) << first << " is not in\n" << text;
    if (begin == std::string::npos) return "";
    std::size_t end = text.find('\n', begin + 1);
    while (end + 1 < text.size() && text[end + 1] == ' ') end = text.find('\n', end + 1);
    return text.substr(begin + 1, end - begin);
  }
};

TEST_F(RunTimesTest, EveryRankHasItsRowsAndTheBitsStay) {
  train(of_four("plain"));
  TrainConfig c =
      with_flags(of_four("timed"), "--log-interval 3 --timing-log-level 2 --timing-log-option all");
  c.run.tensorboard_dir = path("tensorboard");
  c.run.log_timers_to_tensorboard = true;
  const std::string text = said_by(c);
  EXPECT_TRUE(equal("plain", "timed"));
  for (const char* key : {"lm_loss", "grad_norm"}) {
    EXPECT_EQ(metric("plain", key), metric("timed", key)) << key;
  }
  // Behind the line of iteration 3.
  const std::string rows = block(text.substr(text.find("iteration        3/")), "times across");
  for (const std::string name : {"forward-backward", "forward-compute", "backward-compute",
                                 "batch-generator", "all-grads-sync", "params-all-gather",
                                 "optimizer-clip-main-grad", "optimizer-inner-step", "optimizer"}) {
    EXPECT_THAT(rows, testing::ContainsRegex("\n  " + name +
                                             ":\n     rank  0: .*\n     rank  1: .*\n     rank  2: "
                                             ".*\n     rank  3: "));
  }
  // The first stage sends forward and receives backward; both stages have a copy of the tied table.
  EXPECT_THAT(rows, testing::ContainsRegex("\n  forward-send:\n     rank  0: "));
  EXPECT_THAT(rows, testing::ContainsRegex("\n  embedding-grads-all-reduce:\n     rank  0: "));
  EXPECT_THAT(rows, Not(HasSubstr("optimizer-count-zeros")));
  EXPECT_THAT(rows, Not(HasSubstr("save-checkpoint")));
  EXPECT_THAT(block(text, "times across ranks (ms):\n  save-checkpoint"), HasSubstr("rank  3: "));
  // And TensorBoard has the largest of them.
  std::set<std::string> tags;
  for (const auto& event : test::read_events(test::event_files(path("tensorboard")).at(0))) {
    tags.insert(event.tag);
  }
  EXPECT_TRUE(tags.contains("forward-backward-time") && tags.contains("iteration-time"));
}

TEST_F(RunTimesTest, LevelsSayHowMuchIsShown) {
  TrainConfig c = with_flags(config("run"), "--log-interval 2 --timing-log-level 1");
  const std::string some = said_by(c);
  EXPECT_THAT(some, HasSubstr("    forward-backward ........."));
  EXPECT_THAT(some, Not(HasSubstr("forward-compute")));
  // A single rank has nothing to reduce.
  EXPECT_THAT(some, Not(HasSubstr("all-grads-sync")));
  c.run.timing_log_level = 0;
  const std::string least = said_by(c);
  EXPECT_THAT(least, Not(HasSubstr("forward-backward")));
  EXPECT_THAT(least,
              testing::ContainsRegex("\\(min, max\\) time across ranks \\(ms\\):\n"
                                     "    model-and-optimizer-setup \\.+: \\(.*\\)\n"
                                     "    train/valid/test-data-iterators-setup \\.+: \\(.*\\)\n"));
  EXPECT_THAT(least, HasSubstr("\n    save-checkpoint .........."));
}

// The times of iterations, from numbers that the test adds.
TEST_F(RunTimesTest, WaitsAreSharedByTheIterationsOfAProgram) {
  const RunSetup setup(config(""));
  run_local_ranks(1, {}, [&](Communicator& world) {
    const RankCommunicators ranks(setup.grids, world);
    RankArenas arenas(setup.plan_of(0).bytes);
    const auto backend = setup.device.choice().make_backend(1);
    Rank rank(setup.config, *setup.model, setup.programs, ranks, *backend, arenas);
    StepTimers timers;
    RunTimes times(setup, rank, timers, StepTimers::Clock::now());
    const auto add = [&](StepTimer timer, int count) {
      timers.add(timer, std::chrono::seconds(count));
    };
    // Between iterations saving counts, but its waits do not.
    add(StepTimer::kSaveCheckpoint, 7);
    add(StepTimer::kMessages, 100);
    add(StepTimer::kFiles, 100);
    times.begin_iterations();
    add(StepTimer::kData, 2);
    add(StepTimer::kMessages, 4);
    add(StepTimer::kFiles, 6);
    times.end_iterations(2);
    IterationTimes first = times.of_iteration(true);
    EXPECT_EQ(first.data, 1.0);
    EXPECT_EQ(first.messages, 2.0);
    EXPECT_EQ(first.files, 3.0);
    EXPECT_EQ(first.saving, 7.0);
    EXPECT_TRUE(first.rows.empty());
    EXPECT_EQ(times.of_iteration(true).saving, 0.0);
  });
}

// The parts of a step as Megatron counts them: everything belongs to a part, and nothing counts
// twice.
TEST_F(RunTimesTest, PartsOfAStepAddUp) {
  TrainConfig c = config("");
  resolve(c, true);
  const RunSetup setup(c);
  run_local_ranks(1, {}, [&](Communicator& world) {
    const RankCommunicators ranks(setup.grids, world);
    RankArenas arenas(setup.plan_of(0).bytes);
    const auto backend = setup.device.choice().make_backend(1);
    Rank rank(setup.config, *setup.model, setup.programs, ranks, *backend, arenas);
    rank.initialise();
    StepTimers timers;
    rank.time_with(&timers);
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
    rank.train_step({.lr = 1e-3}, stream.source());
    const auto of = [&](StepTimer timer) { return timers.seconds(timer); };
    EXPECT_GT(of(StepTimer::kForwardCompute), 0.0);
    EXPECT_GT(of(StepTimer::kBackwardCompute), 0.0);
    EXPECT_GT(of(StepTimer::kOptimizerInnerStep), 0.0);
    EXPECT_GE(of(StepTimer::kForwardBackward), of(StepTimer::kForwardCompute) +
                                                   of(StepTimer::kBackwardCompute) +
                                                   of(StepTimer::kBatchGenerator));
    EXPECT_GE(of(StepTimer::kBatchGenerator), of(StepTimer::kData));
    EXPECT_GE(of(StepTimer::kOptimizer),
              of(StepTimer::kOptimizerClip) + of(StepTimer::kOptimizerInnerStep));
    EXPECT_EQ(of(StepTimer::kMessages), 0.0);
    // Evaluations do not count.
    const auto before = timers.times();
    rank.evaluate(stream.source());
    auto after = timers.times();
    EXPECT_GT(of(StepTimer::kEvaluation), 0.0);
    after[static_cast<std::size_t>(StepTimer::kEvaluation)] = 0.0;
    EXPECT_EQ(before, after);
  });
}

TEST_F(RunTimesTest, RecomputationIsTheHardwaresWork) {
  // Both shares are of the same time: it cancels out.
  const auto ratio = [&](const std::string& save) {
    return numbers(save, "hfu").back() / numbers(save, "mfu").back();
  };
  TrainConfig c = with_flags(config("stored"), "--train-iters 1 --lr-warmup-iters 0");
  train(c);
  c.run.save = path("computed");
  set_flags(c, "--recompute-granularity full --recompute-method uniform");
  train(c);
  // The layers' forward passes run twice, so they have four parts instead of three; head and table
  // do not.
  EXPECT_GT(ratio("computed"), 1.15 * ratio("stored"));
  EXPECT_LT(ratio("computed"), 1.34 * ratio("stored"));
  for (const char* key : {"waited_for_data_s", "waited_for_messages_s", "saving_s"}) {
    EXPECT_GE(numbers("stored", key).back(), 0.0) << key;
  }
}

TEST_F(RunTimesTest, LinesOfTheStartAndTheEndAreInMegatronsOrder) {
  TrainConfig c =
      with_flags(with_layout(config("run"), {.tensor = 2, .pipeline = 2}), "--log-interval 3");
  const std::string text = said_by(c);
  std::size_t at = 0;
  for (const std::string line :
       {"using world size: 4, data-parallel size: 1, context-parallel size: 1, "
        "tensor-model-parallel size: 2, pipeline-model-parallel size: 2\n",
        "> initializing tensor model parallel with size 2\n",
        "> initializing pipeline model parallel with size 2\n",
        "> setting random seeds to 1234 ...\n",
        "time to initialize megatron (seconds): ",
        "[after megatron is initialized] datetime: ",
        "building GPT model ...\n",
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): ",
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 0): ",
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 1): ",
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 1): ",
        "> learning rate decay style: cosine\n",
        "[after model, optimizer, and learning rate scheduler are built] datetime: ",
        "> building train, validation, and test datasets for GPT ...\n",
        "    train:      24\n",
        "> finished creating GPT datasets ...\n",
        "[after dataloaders are built] datetime: ",
        "done with setup ...\n",
        "training ...\n",
        "[before the start of training step] datetime: ",
        " iteration        3/       6 |",
        "Theoretical memory footprints: weight and optimizer=",
        "[Rank 0] (after 3 iterations) memory (MB) | allocated: ",
        "[Rank 1] (after 3 iterations) memory (MB) | allocated: ",
        "[Rank 3] (after 3 iterations) memory (MB) | allocated: ",
        " iteration        6/       6 |",
        "[after training is done] datetime: "}) {
    const std::size_t found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " is not where it should be in\n" << text;
    at = found + line.size();
  }
}

TEST_F(RunTimesTest, AFullDiskUnderTensorBoardChangesNoBit) {
  train(config("plain"));
  TrainConfig c = config("other");
  std::ofstream(path("file")) << "no directory";
  c.run.tensorboard_dir = path("file");
  EXPECT_THAT(said_by(c), HasSubstr("the run goes on without TensorBoard"));
  EXPECT_TRUE(equal("plain", "other"));
}

TEST_F(RunTimesTest, AResumedRunHasAnEventFileOfItsOwn) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.tensorboard_dir = path("tensorboard");
  c.run.exit_interval = 4;
  train(c);
  c.run.exit_interval = 0;
  train(c);
  const auto files = test::event_files(path("tensorboard"));
  ASSERT_EQ(files.size(), 2U);
  std::map<std::int64_t, float> loss;
  std::vector<std::int64_t> restarts;
  for (const auto& file : files) {
    for (const auto& event : test::read_events(file)) {
      if (event.tag == "lm loss") loss[event.step] = event.value;
      if (event.restarts) restarts.push_back(event.step);
    }
  }
  EXPECT_EQ(restarts, std::vector<std::int64_t>{17});
  const auto expected = losses("run");
  ASSERT_EQ(loss.size(), expected.size());
  for (const auto& [step, value] : loss) {
    EXPECT_EQ(value, static_cast<float>(expected[static_cast<std::size_t>(step - 1)]));
  }
}

}  // namespace
}  // namespace phalanx
