// The same run on pipelines has the bits of one rank, under every schedule and with any changes of
// the number of stages.

#include <cmath>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr Layout kOne{};
constexpr Layout kTwoStages{.name = "p2", .pipeline = 2};
constexpr Layout kFourStages{.name = "p4", .pipeline = 4};
constexpr Layout kInterleaved{.name = "p2-interleaved", .pipeline = 2, .chunks = 2};
constexpr Layout kZeroBubble{.name = "p2-zb-v", .pipeline = 2, .schedule = "zb-v"};
constexpr Layout kPipeDream{.name = "pipedream", .pipeline = 4, .schedule = "pipedream"};
constexpr Layout kDoubleBuffered{.name = "2bw", .pipeline = 4, .schedule = "pipedream-2bw"};

class PipelineRunTest : public RunTest {
 protected:
  // Four layers, four microbatches of a sample.
  TrainConfig config(const Layout& layout, const std::string& save) const {
    return with_layout(with_flags(RunTest::config(save), "--num-layers 4 --micro-batch-size 1"),
                       layout);
  }
  TrainConfig config(const Layout& layout) const { return config(layout, layout.name); }
  TrainConfig asynchronous(const Layout& layout, const std::string& save) const {
    return with_flags(config(layout, save),
                      "--untie-embeddings-and-output-weights --clip-grad 0 "
                      "--pipeline-drain-interval 2 --eval-interval 0");
  }

  // Compares the metrics of two runs and what they saved.
  void expect_same_run(const std::string& found, const std::string& expected) const {
    const std::vector<Json> lines = metrics(found);
    const std::vector<Json> expected_lines = metrics(expected);
    ASSERT_EQ(lines.size(), expected_lines.size()) << found;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const char* key : {"iteration", "consumed_samples", "eval", "lm_loss", "ppl",
                              "learning_rate", "grad_norm", "loss_scale", "skipped"}) {
        ASSERT_EQ(lines[i].contains(key), expected_lines[i].contains(key)) << key;
        if (!lines[i].contains(key)) continue;
        EXPECT_EQ(lines[i].at(key).dump(), expected_lines[i].at(key).dump())
            << key << " in line " << i + 1 << " of " << found;
      }
    }
    const auto differences = difference(expected, found);
    EXPECT_TRUE(differences.tensors_equal()) << found << "\n" << to_text(differences);
    const Manifest a = CheckpointReader::open(path(expected)).manifest();
    const Manifest b = CheckpointReader::open(path(found)).manifest();
    EXPECT_EQ(a.optimizer.adam_step, b.optimizer.adam_step);
    EXPECT_EQ(a.tensors, b.tensors);  // with their digests
  }
};

// With evaluations in between.
TEST_F(PipelineRunTest, TrainsAsOneRankDoes) {
  train(config(kOne));
  EXPECT_EQ(metrics("one").size(), 6U + 5U);
  for (const Layout& layout : {kTwoStages, kFourStages, kInterleaved, kZeroBubble,
                               Layout{.name = "p4-zb-h1", .pipeline = 4, .schedule = "zb-h1"}}) {
    train(config(layout));
    expect_same_run(layout.name, "one");
  }
}

// Wherever the layers are cut.
TEST_F(PipelineRunTest, StagesOfOtherSizesTrainAsOneRankDoes) {
  train(config(kOne));
  train(with_flags(config(kTwoStages), "--decoder-first-pipeline-num-layers 3"));
  expect_same_run("p2", "one");
  train(with_flags(
      config({.name = "p3", .pipeline = 3}),
      "--standalone-embedding-stage --recompute-granularity full --recompute-method uniform"));
  expect_same_run("p3", "one");
}

// A step that overflows on one stage is skipped by all.
TEST_F(PipelineRunTest, SkipsAndScalesAsOneRankDoes) {
  const auto scaled = [&](const Layout& layout) {
    TrainConfig c =
        with_flags(config(layout),
                   "--fp16 --loss-scale-window 2 --hysteresis 1 --train-iters 16 --eval-iters 0");
    c.optimizer.initial_loss_scale = std::ldexp(1.0, 30);
    train(c);
  };
  scaled(kOne);
  const auto skipped = metric("one", "skipped");
  EXPECT_GT(std::ranges::count(skipped, Json(true)), 1);
  EXPECT_GT(std::ranges::count(skipped, Json(false)), 1);
  for (const Layout& layout : {kTwoStages, kZeroBubble}) {
    scaled(layout);
    expect_same_run(layout.name, "one");
  }
}

// A checkpoint has no stages: one saved by two stages resumes on any number with the same bits.
TEST_F(PipelineRunTest, ResumesOnOtherStages) {
  train(config(kOne));
  for (const auto& [first, second] :
       {std::pair{kTwoStages, kOne}, std::pair{kTwoStages, kFourStages},
        std::pair{kOne, kZeroBubble}, std::pair{kInterleaved, kTwoStages}}) {
    const std::string save = fmt::format("{}-to-{}", first.name, second.name);
    train_and_change(config(first, save), second);
    expect_same_run(save, "one");
  }
}

TEST_F(PipelineRunTest, ResumesOnOtherRanks) {
  train(config(kOne));
  const Layout everything{.name = "t2-p2-d2",
                          .tensor = 2,
                          .data = 2,
                          .sequence = true,
                          .sharded = true,
                          .overlaps = true,
                          .pipeline = 2};
  for (const auto& [first, second] :
       {std::pair{kTwoStages, Layout{.name = "t2", .tensor = 2}}, std::pair{kTwoStages, everything},
        std::pair{everything, kZeroBubble}}) {
    const std::string save = fmt::format("{}-to-{}", first.name, second.name);
    train_and_change(config(first, save), second);
    expect_near(save, "one", "lm_loss", 1e-5);
    expect_near(save, "one", "grad_norm", 1e-4);
  }
}

TEST_F(PipelineRunTest, AnAsynchronousRunTrainsAlikeOnTensorParallelStages) {
  for (Layout layout : {kPipeDream, kDoubleBuffered}) {
    layout.pipeline = 2;
    train(asynchronous(layout, "p2"));
    layout.tensor = 2;
    layout.sequence = true;
    train(asynchronous(layout, "t2-p2"));
    expect_near("t2-p2", "p2", "lm_loss", 1e-5);
  }
}

TEST_F(PipelineRunTest, AnAsynchronousRunResumesAtADrain) {
  for (const Layout& layout : {kPipeDream, kDoubleBuffered}) {
    expect_resume_is_bitwise(asynchronous(layout, layout.name), 4);
    std::filesystem::remove_all(path("parts"));
  }
}

// Adam counts updates, the learning rate samples; there is no norm of a whole gradient.
TEST_F(PipelineRunTest, AnAsynchronousRunCountsUpdates) {
  for (const auto& [layout, updates] : {std::pair{kPipeDream, 24}, std::pair{kDoubleBuffered, 6}}) {
    train(asynchronous(layout, layout.name));
    const Manifest manifest = CheckpointReader::open(path(layout.name)).manifest();
    EXPECT_EQ(manifest.optimizer.adam_step, updates);
    EXPECT_EQ(manifest.optimizer.schedule_steps, 24);
    EXPECT_EQ(manifest.consumed_train_samples, 24);
    for (const Json& norm : metric(layout.name, "grad_norm")) EXPECT_TRUE(norm.is_null());
    EXPECT_LT(losses(layout.name).back(), losses(layout.name).front());
  }
}

// The pipeline is empty for an evaluation, and goes on as after any other drain.
TEST_F(PipelineRunTest, AnEvaluationDrains) {
  for (const Layout& layout : {kPipeDream, kDoubleBuffered}) {
    TrainConfig c = asynchronous(layout, "drained");
    train(c);
    c.run.save = path("evaluated");
    set_flags(c, "--pipeline-drain-interval 100 --eval-interval 2");
    train(c);
    EXPECT_TRUE(equal("drained", "evaluated")) << layout.name;
    c.run.save = path("filled");
    c.run.eval_interval = 0;
    train(c);
    EXPECT_FALSE(equal("drained", "filled")) << layout.name;
    for (const char* save : {"drained", "evaluated", "filled"}) {
      std::filesystem::remove_all(path(save));
    }
  }
}

TEST_F(PipelineRunTest, AFaultOnOneRankEndsAll) {
  write_dataset("spoilt", 3);
  for (const Layout& layout : {kFourStages, kZeroBubble}) {
    TrainConfig c = config(layout);
    c.data.data_path = {path("spoilt")};
    c.run.train_iters = 40;
    EXPECT_THROW(pretrain(c), DataError) << layout.name;
  }
}

// Under an asynchronous schedule one stage sees it first.
TEST_F(PipelineRunTest, AGradientThatIsNotFiniteEndsAll) {
  for (const Layout& layout : {kTwoStages, kPipeDream}) {
    TrainConfig c =
        with_flags(asynchronous(layout, ""), "--lr 1e30 --min-lr 0 --lr-warmup-iters 0");
    try {
      pretrain(c);
      ADD_FAILURE() << layout.name << " did not end";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDoNotRestart) << layout.name << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace phalanx
