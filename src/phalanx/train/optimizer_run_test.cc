// Whole runs with SGD, with a separate learning rate for the input and the output layer, and with
// all schedule styles: on one rank, on many, and resumed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "phalanx/checkpoint/info.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Layout kOne{};
constexpr Layout kTwoStages{.name = "p2", .pipeline = 2};
constexpr Layout kData{.name = "d2", .data = 2};
constexpr Layout kSharded{.name = "d2-zero1", .data = 2, .sharded = true, .overlaps = true};
constexpr Layout kCut{.name = "t2-p2-zero1",
                      .tensor = 2,
                      .data = 2,
                      .sequence = true,
                      .sharded = true,
                      .pipeline = 2};

class OptimizerRunTest : public RunTest {
 protected:
  TrainConfig config(const Layout& layout, const std::string& save) const {
    return with_layout(with_flags(RunTest::config(save), "--micro-batch-size 1 --eval-iters 0"),
                       layout);
  }
  TrainConfig sgd(const Layout& layout, const std::string& save, double momentum = 0.9) const {
    TrainConfig c = with_flags(config(layout, save), "--optimizer sgd");
    c.optimizer.sgd_momentum = momentum;
    c.optimizer.lr = 0.1;
    return c;
  }
  static TrainConfig decoupled(TrainConfig c) {
    set_flags(c, "--decoupled-lr 0.03 --decoupled-min-lr 0.02");
    return c;
  }
  CheckpointReader checkpoint(const std::string& save) const {
    return CheckpointReader::open(path(save));
  }
  std::vector<Manifest::Entry> entries(const std::string& save) const {
    return checkpoint(save).manifest().tensors;
  }
  // The names of the optimizer states between "optimizer." and the parameter's name, with counts.
  std::map<std::string, int> states(const std::string& save) const {
    std::map<std::string, int> found;
    for (const auto& entry : entries(save)) {
      if (!entry.name.starts_with(kOptimizerPrefix)) continue;
      const std::string name = entry.name.substr(kOptimizerPrefix.size());
      ++found[name.substr(0, name.find('.'))];
    }
    return found;
  }
  // The names of the weights that differ between two checkpoints.
  std::set<std::string> moved(const std::string& a, const std::string& b) const {
    std::set<std::string> names;
    for (const auto& tensor : difference(a, b).tensors) {
      if (!tensor.name.starts_with(kOptimizerPrefix)) names.insert(tensor.name);
    }
    return names;
  }
};

TEST_F(OptimizerRunTest, SgdLearnsAndKeepsAMomentumOfEveryWeight) {
  train(with_flags(sgd(kOne, "one"), "--train-iters 12"));
  const auto losses = this->losses("one");
  EXPECT_LT(losses.back(), losses.front() - 0.05);
  const auto weights = static_cast<int>(entries("one").size() / 2);
  EXPECT_EQ(states("one"), (std::map<std::string, int>{{"momentum_buffer", weights}}));
  EXPECT_THAT(info_text(checkpoint("one")),
              HasSubstr("optimizer state   momentum_buffer after 12 updates\n"));
}

TEST_F(OptimizerRunTest, SgdHasTheSameBitsOnStagesAndShards) {
  for (const bool bf16 : {false, true}) {
    const auto run = [&](const Layout& layout) {
      TrainConfig c = decoupled(sgd(layout, layout.name));
      c.model.bf16 = bf16;
      train(c);
    };
    for (const Layout& layout : {kOne, kTwoStages, kData, kSharded}) run(layout);
    EXPECT_TRUE(equal("p2", "one")) << to_text(difference("p2", "one"));
    EXPECT_TRUE(equal("d2-zero1", "d2")) << to_text(difference("d2-zero1", "d2"));
    expect_near("d2", "one", "lm_loss", bf16 ? 2e-3 : 1e-5);
  }
}

TEST_F(OptimizerRunTest, SgdResumesInAnotherLayout) {
  train(sgd(kOne, "one"));
  train_and_change(sgd(kTwoStages, "moved"), kOne);
  EXPECT_TRUE(equal("moved", "one")) << to_text(difference("moved", "one"));
  train_and_change(sgd(kCut, "cut"), kTwoStages);
  expect_near("cut", "one", "lm_loss", 1e-5);
  expect_resume_is_bitwise(with_flags(sgd(kSharded, "bf16"), "--bf16"));
}

// Without momentum there is no optimizer state.
TEST_F(OptimizerRunTest, SgdWithoutMomentumKeepsNothing) {
  expect_resume_is_bitwise(sgd(kOne, "none", 0.0));
  EXPECT_TRUE(states("none").empty());
  EXPECT_FALSE(checkpoint("none").has_optimizer());
  const RunSetup without(sgd(kOne, "", 0.0));
  const RunSetup with(sgd(kOne, ""));
  const RunSetup adam(config(kOne, ""));
  EXPECT_EQ(without.plan_of(0).bytes["optimizer"], 0);
  EXPECT_EQ(2 * with.plan_of(0).bytes["optimizer"], adam.plan_of(0).bytes["optimizer"]);
  TrainConfig half = with_flags(sgd(kOne, "half", 0.0), "--bf16");
  train(half);
  EXPECT_EQ(states("half").size(), 1U);
  EXPECT_EQ(states("half").begin()->first, "main_param");
}

// An overflow changes neither weights nor momenta, as with Adam.
TEST_F(OptimizerRunTest, SgdSkipsWhatOverflows) {
  TrainConfig c = with_flags(sgd(kTwoStages, "fp16"), "--fp16");
  c.optimizer.initial_loss_scale = std::ldexp(1.0, 60);
  c.optimizer.hysteresis = 1;
  EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
              HasSubstr("nothing was trained"));
  EXPECT_EQ(metric("fp16", "skipped"), std::vector<Json>(6, Json(true)));
  EXPECT_EQ(checkpoint("fp16").manifest().optimizer.adam_step, 0);
  const CheckpointReader reader = checkpoint("fp16");
  for (const auto& entry : reader.manifest().tensors) {
    if (!entry.name.starts_with(state_prefix("momentum_buffer"))) continue;
    for (const std::byte value : testing_support::bytes_of(reader, entry))
      ASSERT_EQ(value, std::byte{0}) << entry.name;
  }
}

TEST_F(OptimizerRunTest, AnotherOptimizersStateIsRefusedOrLeft) {
  train(config(kOne, "run"));
  TrainConfig c = sgd(kOne, "run");
  c.run.load = c.run.save;
  c.run.train_iters = 8;
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("--lr "), HasSubstr("the optimizer is sgd with momentum"),
                                HasSubstr("made with adam"), HasSubstr("--no-load-optim")));
  c.run.no_load_optim = true;
  EXPECT_EQ(refusal(c), "no error");
  EXPECT_EQ(states("run").begin()->first, "momentum_buffer");
  EXPECT_EQ(checkpoint("run").manifest().iteration, 8);
}

// A separate rate of 0 keeps its own weights unchanged, and only these.
TEST_F(OptimizerRunTest, TheDecoupledRateIsForInputAndOutput) {
  for (const bool tied : {true, false}) {
    for (const Layout& layout : {kOne, kSharded, kCut}) {
      SCOPED_TRACE(fmt::format("{}, {}", layout.name, tied ? "tied" : "untied"));
      TrainConfig c = config(layout, "start");
      c.model.untie_embeddings_and_output_weights = !tied;
      set_flags(c, "--lr-warmup-iters 0 --min-lr 0 --train-iters 1");
      TrainConfig start = with_flags(c, "--lr 0");
      train(start);
      c.run.save = path("moved");
      c.optimizer.decoupled_lr = 0.0;
      train(c);
      const std::set<std::string> names = moved("start", "moved");
      std::size_t weights = 0;
      for (const auto& entry : entries("moved")) {
        if (entry.name.starts_with(kOptimizerPrefix)) continue;
        ++weights;
        const bool has_own_rate =
            entry.name == "embedding.word_embeddings.weight" || entry.name == "output_layer.weight";
        EXPECT_EQ(names.contains(entry.name), !has_own_rate) << entry.name;
      }
      EXPECT_EQ(weights - names.size(), tied ? 1U : 2U);
    }
  }
}

TEST_F(OptimizerRunTest, DecoupledRatesHaveTheSameBitsOnStagesAndResumed) {
  train(decoupled(config(kOne, "one")));
  train(decoupled(config(kTwoStages, "p2")));
  EXPECT_TRUE(equal("p2", "one")) << to_text(difference("p2", "one"));
  expect_resume_is_bitwise(decoupled(config(kOne, "straight")));
  train(config(kOne, "plain"));
  EXPECT_FALSE(equal("plain", "one"));
  testing::internal::CaptureStderr();
  train(with_flags(decoupled(config(kOne, "")),
                   "--log-interval 2 --train-iters 2 --lr-warmup-iters 1"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(" decoupled learning rate: 2.000000E-02 | global batch size:     4 |"));
}

// Learning rate and weight decay change in every iteration. The first step after a checkpoint has
// the values of its count, with either choice between the flags and the checkpoint.
TEST_F(OptimizerRunTest, SchedulesGoOnWhereTheyWere) {
  TrainConfig c = with_flags(config(kOne, "straight"),
                             "--lr-decay-style WSD --lr-wsd-decay-style minus_sqrt "
                             "--lr-wsd-decay-iters 3 --lr-warmup-iters 1 --weight-decay-incr-style "
                             "linear --start-weight-decay 0 --end-weight-decay 10");
  expect_resume_is_bitwise(c);
  const auto rates = numbers("straight", "learning_rate");
  const std::vector<double> expected = {
      1e-2, 1e-2, 1e-2, 1e-2 - 9e-3 * std::sqrt(1.0 / 3.0), 1e-2 - 9e-3 * std::sqrt(2.0 / 3.0),
      1e-3};
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-9) << i;

  TrainConfig other = c;
  other.run.save = path("kept");
  other.run.load = path("kept");
  other.run.exit_interval = 3;
  train(other);
  set_flags(other,
            "--exit-interval 0 --weight-decay-incr-style constant --start-weight-decay "
            "--end-weight-decay --lr-wsd-decay-style exponential");
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("--lr-wsd-decay-style"), HasSubstr("checkpoint\n"),
                                    HasSubstr("--use-checkpoint-opt_param-scheduler")));
  other.optimizer.use_checkpoint_opt_param_scheduler = true;
  train(other);
  EXPECT_TRUE(equal("kept", "straight")) << to_text(difference("kept", "straight"));
}

}  // namespace
}  // namespace phalanx
