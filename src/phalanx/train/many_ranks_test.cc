// The same run on many ranks, in every layout: equal losses, one metrics file, checkpoints that any
// other layout resumes from.

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr Layout kOne{};
constexpr Layout kTensor{.name = "t2", .tensor = 2};
constexpr Layout kSequence{.name = "t2-sp", .tensor = 2, .sequence = true};
constexpr Layout kData{.name = "d2", .data = 2};
constexpr Layout kSharded{.name = "d2-zero1", .data = 2, .sharded = true};
constexpr Layout kEverything{.name = "t2-sp-d2-zero1-overlap",
                             .tensor = 2,
                             .data = 2,
                             .sequence = true,
                             .sharded = true,
                             .overlaps = true};
constexpr std::array kLayouts = {
    kTensor,
    kSequence,
    Layout{.name = "t4-sp", .tensor = 4, .sequence = true},
    kData,
    Layout{.name = "d2-overlap", .data = 2, .overlaps = true},
    kSharded,
    Layout{.name = "d4-zero1-overlap", .data = 4, .sharded = true, .overlaps = true},
    Layout{.name = "t2-d2", .tensor = 2, .data = 2},
    kEverything};

class ManyRanksTest : public RunTest {
 protected:
  // One sample at a time, so that up to four data-parallel ranks have one.
  TrainConfig config(const Layout& layout) const { return config(layout, layout.name); }
  TrainConfig config(const Layout& layout, const std::string& save) const {
    return with_layout(with_flags(RunTest::config(save), "--micro-batch-size 1"), layout);
  }
  // Messages that proceed in pieces while ranks wait, instead of all at once in the last rank.
  static TrainConfig with_large_messages(TrainConfig c) {
    set_flags(c, "--hidden-size 64 --vocab-size 4096");
    if (c.layout.ddp_bucket_size > 0) c.layout.ddp_bucket_size = 40000;
    return c;
  }
};

// Dropout is on: masks are functions of the global coordinates.
TEST_F(ManyRanksTest, TrainAlike) {
  train(config(kOne));
  const auto expected = metrics("one");
  for (const Layout& layout : kLayouts) {
    train(config(layout));
    expect_near(layout.name, "one", "lm_loss", 1e-5);
    expect_near(layout.name, "one", "grad_norm", 1e-4);
    // Each line is written once; lines of evaluations have the same keys and losses.
    const auto found = metrics(layout.name);
    ASSERT_EQ(found.size(), expected.size()) << layout.name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const char* key : {"iteration", "consumed_samples"}) {
        EXPECT_EQ(found[i].at(key), expected[i].at(key)) << layout.name << " line " << i + 1;
      }
      EXPECT_EQ(found[i].value("eval", ""), expected[i].value("eval", ""));
      const auto loss = expected[i].at("lm_loss").get<double>();
      EXPECT_NEAR(found[i].at("lm_loss").get<double>(), loss, 1e-5 * loss) << layout.name;
    }
  }
}

TEST_F(ManyRanksTest, MetricsHaveTheirKeysInOrder) {
  train(config(kEverything));
  const std::vector<std::string> training = {"iteration",
                                             "consumed_samples",
                                             "lm_loss",
                                             "learning_rate",
                                             "grad_norm",
                                             "loss_scale",
                                             "skipped",
                                             "elapsed_s",
                                             "tokens_per_second",
                                             "model_flops_per_second",
                                             "peak_bytes",
                                             "rss_bytes",
                                             "mfu",
                                             "hfu",
                                             "waited_for_data_s",
                                             "waited_for_messages_s",
                                             "saving_s"};
  const std::vector<std::string> evaluation = {"iteration", "consumed_samples", "eval", "lm_loss",
                                               "ppl"};
  for (const Json& line : metrics(kEverything.name)) {
    std::vector<std::string> keys;
    for (const auto& item : line.items()) keys.push_back(item.key());
    EXPECT_EQ(keys, line.contains("eval") ? evaluation : training);
  }
  EXPECT_EQ(metric(kEverything.name, "iteration"), (std::vector<Json>{1, 2, 3, 4, 5, 6}));
  for (const Json& line : training_metrics(kEverything.name)) {
    EXPECT_EQ(line.at("skipped"), false);
    EXPECT_EQ(line.at("loss_scale"), 1.0);
    EXPECT_GT(line.at("rss_bytes").get<double>(), line.at("peak_bytes").get<double>());
  }
}

// A checkpoint does not depend on the layout.
TEST_F(ManyRanksTest, ResumeInAnother) {
  train(config(kOne));
  const std::vector<std::array<Layout, 2>> changes = {
      {kOne, kEverything}, {kSequence, kSharded}, {kEverything, kOne}, {kSharded, kTensor}};
  for (const auto& [first, second] : changes) {
    const std::string save = fmt::format("{}-to-{}", first.name, second.name);
    train_and_change(config(first, save), second);
    expect_near(save, "one", "lm_loss", 1e-5);
    EXPECT_EQ(CheckpointReader::open(path(save)).manifest().iteration, 6);
  }
}

TEST_F(ManyRanksTest, ResumeInTheSameIsBitwise) { expect_resume_is_bitwise(config(kEverything)); }

TEST_F(ManyRanksTest, ResumeInTheSameIsBitwiseInBf16) {
  expect_resume_is_bitwise(with_flags(
      config(kEverything), "--bf16 --recompute-granularity full --recompute-method uniform"));
}

// Sums over data-parallel ranks are in rank order, and norms are sums of blocks that are never cut.
TEST_F(ManyRanksTest, ShardsAndBucketsDoNotChangeABit) {
  for (const bool bf16 : {false, true}) {
    for (const std::int64_t tensor : {1, 2}) {
      Layout layout{.name = "plain", .tensor = tensor, .data = 2, .sequence = tensor > 1};
      TrainConfig plain = config(layout);
      plain.model.bf16 = bf16;
      train(plain);
      layout.name = "sharded";
      layout.sharded = true;
      for (const bool overlaps : {false, true}) {
        layout.overlaps = overlaps;
        TrainConfig sharded = config(layout);
        sharded.model.bf16 = bf16;
        train(sharded);
        const auto found = difference("plain", "sharded");
        EXPECT_TRUE(found.tensors_equal()) << to_text(found);
        EXPECT_EQ(metric("plain", "grad_norm"), metric("sharded", "grad_norm"));
        EXPECT_EQ(metric("plain", "lm_loss"), metric("sharded", "lm_loss"));
      }
    }
  }
}

TEST_F(ManyRanksTest, StartFromTheSameWeights) {
  const auto start = [&](Layout layout, bool bf16) {
    TrainConfig c = config(layout, fmt::format("{}-{}", layout.name, bf16 ? "bf16" : "fp32"));
    c.model.bf16 = bf16;
    set_flags(c, "--train-iters 1 --lr-warmup-iters 0 --lr 0 --min-lr 0 --eval-iters 0");
    c.run.no_save_optim = !bf16;  // with main parameters, but moments differ
    train(c);
  };
  for (const bool bf16 : {false, true}) {
    const std::string suffix = bf16 ? "-bf16" : "-fp32";
    start(kOne, bf16);
    for (const Layout& layout : kLayouts) {
      if (bf16 && !layout.sequence) continue;
      start(layout, bf16);
      auto found = difference("one" + suffix, layout.name + suffix);
      std::erase_if(found.tensors, [](const TensorDifference& d) {
        return d.name.starts_with(state_prefix("exp_avg")) ||
               d.name.starts_with(state_prefix("exp_avg_sq"));
      });
      EXPECT_TRUE(found.tensors_equal()) << layout.name << "\n" << to_text(found);
    }
  }
}

// The mean over the tokens of the global batch does not depend on the layout; the mean of means is
// the same on one rank and on many with the same microbatches.
TEST_F(ManyRanksTest, LossAveragesOfMaskedTokens) {
  const auto averaged = [&](Layout layout, const std::string& average) {
    TrainConfig c =
        with_flags(config(layout, fmt::format("{}-{}", layout.name, average)), "--eod-mask-loss");
    c.optimizer.loss_average = average;
    train(c);
  };
  for (const char* average : {"token", "microbatch"}) {
    averaged(kOne, average);
    averaged(kData, average);
    for (const char* key : {"lm_loss", "grad_norm"}) {
      expect_near(fmt::format("d2-{}", average), fmt::format("one-{}", average), key, 2e-5);
    }
  }
  EXPECT_NE(losses("d2-token")[0], losses("d2-microbatch")[0]);
  EXPECT_GT(
      std::abs(numbers("d2-token", "grad_norm")[0] - numbers("d2-microbatch", "grad_norm")[0]),
      1e-4 * numbers("d2-token", "grad_norm")[0]);
}

TEST_F(ManyRanksTest, ClippingByTheNormOfTheWholeModel) {
  const auto clipped = [&](const Layout& layout, const std::string& name, double clip) {
    TrainConfig c = config(layout, name);
    c.optimizer.clip_grad = clip;
    train(c);
  };
  clipped(kOne, "one-little", 0.05);
  clipped(kEverything, "all-little", 0.05);
  expect_near("all-little", "one-little", "lm_loss", 1e-5);
  clipped(kEverything, "all-off", 0.0);
  clipped(kEverything, "all-high", 1e9);
  EXPECT_TRUE(equal("all-off", "all-high"));
  EXPECT_FALSE(equal("all-off", "all-little"));
  EXPECT_EQ(metric("all-off", "grad_norm"), metric("all-high", "grad_norm"));
  EXPECT_EQ(metric("all-off", "grad_norm")[0], metric("all-little", "grad_norm")[0]);
}

// A finished run is resumed in another layout: it only evaluates and saves.
TEST_F(ManyRanksTest, AFinishedRunIsSavedElsewhere) {
  train(config(kOne));
  for (const Layout& layout : {kOne, kSharded, kEverything}) {
    TrainConfig c = config(layout, "copy");
    c.run.load = path("one");
    c.run.eval_iters = 0;
    train(c);
    EXPECT_TRUE(equal("one", "copy")) << layout.name;
    std::filesystem::remove_all(c.run.save);
  }
}

// The gathers of the last step are still under way when the run ends.
TEST_F(ManyRanksTest, EndWithParametersUnderWay) {
  for (int round = 0; round < 5; ++round) {
    train(with_flags(config(kEverything, ""),
                     "--ddp-bucket-size 1000 --eval-iters 0 --train-iters 2 --lr-warmup-iters 0"));
  }
}

// A rank that ends, with or without an error, frees its memory only when no other rank can read it.
TEST_F(ManyRanksTest, MemoryLivesWhileMessagesAreUnderWay) {
  write_dataset("spoilt", 3);
  TrainConfig c =
      with_flags(with_large_messages(config({.data = 4, .sharded = true, .overlaps = true}, "")),
                 "--eval-iters 0 --train-iters 1 --lr-warmup-iters 0");
  for (int round = 0; round < 12; ++round) train(c);
  c.data.data_path = {path("spoilt")};
  c.run.train_iters = 40;
  for (int round = 0; round < 3; ++round) EXPECT_THROW(pretrain(c), DataError);
}

TEST_F(ManyRanksTest, ACheckpointWaitsForParametersUnderWay) {
  Layout layout{.name = "at-once", .data = 2, .sharded = true};
  for (const bool overlaps : {false, true}) {
    layout.overlaps = overlaps;
    if (overlaps) layout.name = "under-way";
    train(with_flags(with_large_messages(config(layout)),
                     "--train-iters 2 --lr-warmup-iters 0 --eval-iters 0 --save-interval 1"));
  }
  for (const char* iteration : {"/iter_0000001", "/iter_0000002"}) {
    const auto found =
        difference(std::string("at-once") + iteration, std::string("under-way") + iteration);
    EXPECT_TRUE(found.tensors_equal()) << to_text(found);
  }
}

// One rank fails while the others wait for it in the middle of a step, with messages under way.
TEST_F(ManyRanksTest, AFaultOnOneRankEndsAll) {
  write_dataset("spoilt", 3);
  for (const Layout& layout :
       {kTensor, kData, kSharded, Layout{.name = "t2-d2", .tensor = 2, .data = 2}, kEverything}) {
    TrainConfig c = config(layout);
    c.data.data_path = {path("spoilt")};
    c.run.train_iters = 40;
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { pretrain(c); }), testing::HasSubstr("60000"))
        << layout.name;
    EXPECT_GT(metrics(layout.name).size(), 0U) << "the fault came before the first step";
  }
}

TEST_F(ManyRanksTest, AGradientThatIsNotFiniteEndsAll) {
  for (const Layout& layout : {kSequence, kEverything}) {
    TrainConfig c = with_flags(
        config(layout), "--lr 1e30 --min-lr 0 --lr-warmup-iters 0 --clip-grad 0 --save-interval 1");
    EXPECT_NE(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }), "no error") << layout.name;
    EXPECT_EQ(metrics(layout.name).back().at("iteration"),
              CheckpointReader::open(c.run.save).manifest().iteration);
  }
}

}  // namespace
}  // namespace phalanx
