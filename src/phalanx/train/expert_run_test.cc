// Whole runs of models with experts: every layout trains the model of one rank.

#include <string>
#include <vector>

#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr Layout kOne{};
constexpr Layout kData{.name = "d2", .data = 2};
constexpr Layout kSequence{.name = "t2-sp", .tensor = 2, .sequence = true};
constexpr Layout kStages{.name = "p2", .pipeline = 2};
constexpr Layout kZeroBubble{.name = "p2-zb-v", .pipeline = 2, .schedule = "zb-v"};

class ExpertRunTest : public RunTest {
 protected:
  // The second layer of four is dense.
  static constexpr const char* kFlags =
      "--num-layers 4 --num-experts 4 --moe-layer-freq [1]+[0]+[1]*2 --moe-ffn-hidden-size 24 "
      "--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1 0.05 "
      "--moe-z-loss-coeff 0.01 --moe-shared-expert-intermediate-size 16 --swiglu "
      "--expert-tensor-parallel-size 1 --micro-batch-size 1 --eod-mask-loss --train-iters 4";
  TrainConfig config(const Layout& layout, const std::string& more = {},
                     const std::string& save = {}) const {
    const std::string name = save.empty() ? layout.name : save;
    return with_layout(with_flags(with_flags(RunTest::config(name), kFlags), more), layout);
  }
  void expect_near_one(const std::string& found, double relative) const {
    for (const char* key :
         {"lm_loss", "grad_norm", "load_balancing_loss", "seq_load_balancing_loss", "z_loss"}) {
      expect_near(found, "one", key, relative);
    }
  }
};

TEST_F(ExpertRunTest, ReportsTheLossesOfRouters) {
  train(config(kOne));
  for (const Json& line : metrics("one")) {
    const bool trains = !line.contains("eval");
    EXPECT_EQ(line.contains("load_balancing_loss"), trains);
    EXPECT_EQ(line.contains("z_loss"), trains);
    if (!trains) continue;
    // 1 where all experts are used equally, 4 / 2 where two experts have all tokens.
    EXPECT_GT(line.at("load_balancing_loss").get<double>(), 0.9);
    EXPECT_LT(line.at("load_balancing_loss").get<double>(), 2.0);
    EXPECT_GE(line.at("seq_load_balancing_loss").get<double>(),
              0.9 * line.at("load_balancing_loss").get<double>());
  }
}

TEST_F(ExpertRunTest, StagesAndRecomputationTrainAsOneRankDoes) {
  train(config(kOne));
  const std::string recompute = "--recompute-granularity full --recompute-method uniform";
  train(config(kStages));
  train(config(kZeroBubble));
  train(config(kOne, recompute, "recomputed"));
  train(config(kStages, recompute, "p2-recomputed"));
  for (const std::string name : {"p2", "p2-zb-v", "recomputed", "p2-recomputed"}) {
    const auto found = difference("one", name);
    EXPECT_TRUE(found.tensors_equal()) << name << "\n" << to_text(found);
    EXPECT_EQ(losses(name), losses("one")) << name;
    expect_near_one(name, 1e-12);
  }
}

TEST_F(ExpertRunTest, RanksThatShareTokensTrainTheModelOfOne) {
  train(config(kOne));
  train(config(kData));
  train(config(kSequence));
  TrainConfig context = config(kOne, "--context-parallel-size 2", "c2");
  context.layout.world_size = 2;
  train(context);
  for (const std::string name : {"d2", "t2-sp", "c2"}) expect_near_one(name, 1e-4);
}

TEST_F(ExpertRunTest, StagesOfZeroAreOneRun) {
  const std::string whole_batch = "--micro-batch-size 2";
  train(config(kData, whole_batch));
  for (const std::int64_t stage : {1, 2, 3}) {
    const std::string name = fmt::format("zero{}", stage);
    Layout layout = kData;
    layout.zero = stage;
    layout.overlaps = stage == 3;
    train(config(layout, whole_batch, name));
    const auto found = difference("d2", name);
    EXPECT_TRUE(found.tensors_equal()) << name << "\n" << to_text(found);
    EXPECT_EQ(losses(name), losses("d2")) << name;
  }
}

// The ranks of an expert are in two groups, of one rank and of two.
TEST_F(ExpertRunTest, CopiesOfStatesAreOneRun) {
  train(config(kOne));
  for (Layout layout :
       {Layout{.name = "d4", .data = 4, .copies = 2},
        Layout{.name = "t2-d4", .tensor = 2, .data = 4, .sequence = true, .copies = 2}}) {
    for (const std::int64_t stage : {1, 3}) {
      layout.zero = stage;
      train(config(layout,
                   "--expert-model-parallel-size 2 "
                   "--check-weight-hash-across-dp-replicas-interval 1",
                   fmt::format("{}-{}", layout.name, stage)));
    }
    const std::string name = layout.name;
    expect_near_one(name + "-1", 1e-4);
    const auto found = difference(name + "-1", name + "-3");
    EXPECT_TRUE(found.tensors_equal()) << to_text(found);
  }
}

TEST_F(ExpertRunTest, ResumesBitwise) {
  expect_resume_is_bitwise(config(kOne, "--bf16 --moe-expert-capacity-factor 1.0"), 2);
}

// Each iteration has another grid of experts, and loads what the one before has saved.
TEST_F(ExpertRunTest, GoesOnOnAnyGrid) {
  train(config(kOne));
  Layout four{.name = "d4", .data = 4};
  four.zero = 3;
  const auto go_on = [&](const Layout& layout, const std::string& flags, std::int64_t at) {
    TrainConfig next = config(layout, flags, "grids");
    next.run.load = next.run.save;
    next.run.exit_interval = at;
    EXPECT_EQ(pretrain(next), RunEnd::kFinished);
  };
  go_on(kOne, "", 1);
  go_on(kData, "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall", 2);
  go_on(kSequence, "--expert-tensor-parallel-size 2", 3);
  go_on(four, "--expert-model-parallel-size 4", 4);
  expect_near_one("grids", 1e-4);
}

// A bias of linears, no losses of routers, one expert for a token.
TEST_F(ExpertRunTest, OfOneExpertLearns) {
  train(config(kOne,
               "--moe-router-topk 1 --moe-router-score-function sigmoid --moe-z-loss-coeff 0 "
               "--moe-aux-loss-coeff 0 0 --train-iters 6"));
  const std::vector<double> loss = losses("one");
  EXPECT_LT(loss.back(), loss.front());
  EXPECT_FALSE(training_metrics("one").front().contains("load_balancing_loss"));
}

}  // namespace
}  // namespace phalanx
