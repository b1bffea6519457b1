// Whole runs of models whose experts have a bias: it is the same on every layout, is saved and
// loaded, and moves in training alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "phalanx/checkpoint/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Layout kOne{};
constexpr Layout kData{.name = "d2", .data = 2};
constexpr Layout kSequence{.name = "t2-sp", .tensor = 2, .sequence = true};
constexpr Layout kStages{.name = "p2", .pipeline = 2};

class ExpertStateRunTest : public RunTest {
 protected:
  static constexpr const char* kBias =
      "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-router-bias-update-rate 0.01 ";

  // The second layer of four is dense. A step has four microbatches on one rank.
  TrainConfig config(const Layout& layout, const std::string& more = kBias,
                     const std::string& save = {}) const {
    return with_layout(
        with_flags(RunTest::config(save.empty() ? layout.name : save),
                   "--num-layers 4 --num-experts 4 --moe-layer-freq [1]+[0]+[1]*2 "
                   "--moe-ffn-hidden-size 24 --swiglu --expert-tensor-parallel-size 1 "
                   "--micro-batch-size 1 --train-iters 4 --moe-per-layer-logging " +
                       more),
        layout);
  }
  // By layer, what the checkpoint has of it.
  std::vector<std::vector<float>> biases(const std::string& save) const {
    std::vector<std::vector<float>> found;
    const CheckpointReader reader = CheckpointReader::open(path(save));
    for (const auto& entry : reader.manifest().tensors) {
      if (!entry.name.ends_with(".mlp.router.expert_bias")) continue;
      EXPECT_EQ(entry.dtype, DType::kF32);
      const std::vector<std::byte> bytes = testing_support::bytes_of(reader, entry);
      auto& values = found.emplace_back(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return found;
  }
  static float most(const std::vector<std::vector<float>>& biases) {
    float most = 0.0F;
    for (const auto& of_layer : biases) {
      for (const float bias : of_layer) most = std::max(most, std::abs(bias));
    }
    return most;
  }
  void expect_counts_of(const std::string& found, const std::string& expected) const {
    EXPECT_EQ(biases(found), biases(expected)) << found;
    for (const char* key : {"expert_load", "expert_load_mean", "expert_load/decoder.layers.0",
                            "expert_load/decoder.layers.2", "expert_load/decoder.layers.3",
                            "expert_dropped", "expert_bias_min", "expert_bias_max"}) {
      EXPECT_EQ(metric(found, key), metric(expected, key)) << found << " " << key;
    }
  }
};

// Each of four steps has moved it by the rate.
TEST_F(ExpertStateRunTest, BiasesMoveOnceInAStep) {
  train(config(kOne));
  const auto found = biases("one");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_GT(most(found), 0.015F);
  EXPECT_LT(most(found), 0.0401F);
  EXPECT_EQ(numbers("one", "expert_bias_max").front(), 0.0);
  EXPECT_GT(numbers("one", "expert_bias_max").back(), 0.0);
  for (const double load : numbers("one", "expert_load")) {
    EXPECT_GE(load, 1.0);
    EXPECT_LE(load, 2.0);  // two experts have all tokens
  }
}

TEST_F(ExpertStateRunTest, RanksCountAsOneDoes) {
  train(config(kOne));
  train(config(kData));
  train(config(kSequence));
  train(config(kStages));
  TrainConfig context = config(kOne, std::string(kBias) + "--context-parallel-size 2", "c2");
  context.layout.world_size = 2;
  train(context);
  for (const char* name : {"d2", "t2-sp", "p2", "c2"}) expect_counts_of(name, "one");
}

TEST_F(ExpertStateRunTest, StagesOfZeroCountAsOneRankDoes) {
  train(config(kOne));
  for (const std::int64_t stage : {1, 2, 3}) {
    const std::string name = fmt::format("zero{}", stage);
    Layout layout = kData;
    layout.zero = stage;
    layout.overlaps = true;
    train(config(layout, kBias, name));
    expect_counts_of(name, "one");
  }
}

// Neither of them counts.
TEST_F(ExpertStateRunTest, RecomputationAndEvaluationsChangeNothing) {
  train(config(kOne));
  const std::string recompute =
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2 ";
  train(config(kOne, kBias + recompute, "recomputed"));
  train(config(kOne, std::string(kBias) + "--eval-interval 1 --eval-iters 3", "evaluated"));
  for (const char* name : {"recomputed", "evaluated"}) {
    EXPECT_TRUE(equal("one", name)) << to_text(difference("one", name));
    expect_counts_of(name, "one");
  }
}

TEST_F(ExpertStateRunTest, ResumesBitwise) {
  expect_resume_is_bitwise(config(kOne, std::string(kBias) + "--bf16"), 2);
  expect_counts_of("parts", "one");
}

TEST_F(ExpertStateRunTest, ResumesBitwiseFromPartsThatAreWrittenWhileItTrains) {
  expect_resume_is_bitwise(
      config(kStages, std::string(kBias) + "--async-save --save-interval 1 --bf16"), 2);
}

// A new run may begin with a model without biases, or go on with those of a model that has some.
TEST_F(ExpertStateRunTest, LoadsWeightsWithAndWithoutBiases) {
  const std::string scores = "--moe-router-score-function sigmoid ";
  train(config(kOne, scores, "without"));
  TrainConfig with = config(kOne);
  with.run.load = path("without");
  EXPECT_THAT(refusal(with), HasSubstr("--moe-router-enable-expert-bias"));
  with.run.finetune = true;
  train(with);
  EXPECT_GT(most(biases("one")), 0.0F);

  TrainConfig tuned =
      config(kOne, std::string(kBias) + "--train-iters 1 --lr-warmup-iters 0", "tuned");
  tuned.run.load = path("one");
  tuned.run.finetune = true;
  train(tuned);
  EXPECT_GT(numbers("tuned", "expert_bias_max").front(), 0.0);

  TrainConfig without = config(kOne, scores, "again");
  without.run.load = path("one");
  without.run.finetune = true;
  EXPECT_THAT(refusal(without), AllOf(HasSubstr("decoder.layers.0.mlp.router.expert_bias"),
                                      HasSubstr("this model has none of that name")));
}

// fp16 with a scale that overflows: the bias moves, as in Megatron, and no weight does.
TEST_F(ExpertStateRunTest, BiasesMoveInASkippedStep) {
  const TrainConfig c =
      config(kOne, std::string(kBias) +
                       "--fp16 --initial-loss-scale 1e30 --train-iters 1 --lr-warmup-iters 0");
  EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
              HasSubstr("nothing was trained"));
  EXPECT_EQ(metric("one", "skipped"), std::vector<Json>{true});
  EXPECT_NEAR(most(biases("one")), 0.01F, 1e-6F);
}

// Gradients of routers are infinite, the loss is a number. The failed step has moved the biases, so
// far that tokens would choose other experts; it is run again with those that it had, and so has
// the same loss.
TEST_F(ExpertStateRunTest, AFailedStepIsRunAgainWithItsBiases) {
  for (const char* experts :
       {"", "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall"}) {
    const std::string flags =
        std::string(kBias) +
        "--moe-router-bias-update-rate 1 --moe-router-load-balancing-type none "
        "--moe-z-loss-coeff 1e40 ";
    const TrainConfig c = config(kData, flags + experts);
    EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
                AllOf(HasSubstr("iteration 1: the loss or gradient is not finite (loss 3."),
                      HasSubstr("nor is it when the step is run again on the same samples"),
                      HasSubstr("gradient of decoder.layers.3.mlp.router.weight")));
  }
}

TEST_F(ExpertStateRunTest, ReportsHowManyPairsAreDropped) {
  train(config(kOne, "--moe-expert-capacity-factor 0.5"));
  for (const double dropped : numbers("one", "expert_dropped")) EXPECT_GE(dropped, 0.5);
  EXPECT_FALSE(training_metrics("one").front().contains("expert_bias_min"));
}

// The loss of all ranks' tokens of a step so far is the same on any layout with the same
// microbatches of all ranks together.
TEST_F(ExpertStateRunTest, GlobalBalanceIsThatOfOneRank) {
  const std::string global =
      "--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.1 ";
  train(config(kOne, global + "--micro-batch-size 2"));
  train(config(kData, global));
  train(config(kSequence, global + "--micro-batch-size 2"));
  train(config(kStages, global + "--micro-batch-size 2"));
  for (const char* name : {"d2", "t2-sp", "p2"}) {
    for (const char* key : {"lm_loss", "global_load_balancing_loss", "grad_norm"}) {
      expect_near(name, "one", key, 1e-4);
    }
  }
}

// Factors belong to samples, positions and features, not to ranks or passes.
TEST_F(ExpertStateRunTest, JitterIsThatOfOneRank) {
  const std::string jitter = "--moe-input-jitter-eps 0.1 ";
  train(config(kOne, "", "without"));
  train(config(kOne, jitter));
  EXPECT_NE(losses("one"), losses("without"));
  train(config(kOne, jitter + "--recompute-granularity full --recompute-method uniform",
               "recomputed"));
  train(config(kStages, jitter));
  for (const char* name : {"recomputed", "p2"}) EXPECT_TRUE(equal("one", name)) << name;
  train(config(kData, jitter));
  train(config(kSequence, jitter));
  for (const char* name : {"d2", "t2-sp"}) {
    for (const char* key : {"lm_loss", "grad_norm"}) expect_near(name, "one", key, 1e-4);
  }
}

TEST_F(ExpertStateRunTest, TrainsBySinkhornAndInTurn) {
  train(config(kOne, "--moe-router-load-balancing-type sinkhorn"));
  for (const double load : numbers("one", "expert_load")) EXPECT_LT(load, 1.5);
  train(config(kData, "--moe-router-force-load-balancing"));
  for (const double load : numbers("d2", "expert_load")) EXPECT_EQ(load, 1.0);
}

}  // namespace
}  // namespace phalanx
