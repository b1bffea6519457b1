// Loss scales in whole runs: what an overflow does to the counters, the log and the checkpoint.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Layout kSequence{.name = "t2-sp", .tensor = 2, .sequence = true};
constexpr Layout kSharded{.name = "d2-zero1", .data = 2, .sharded = true, .overlaps = true};

constexpr Layout kGathered{.name = "d2-zero3", .data = 2, .overlaps = true, .zero = 3};

class LossScaleTest : public RunTest {
 protected:
  // Begins with a scale that overflows, falls to one that does not, and grows after two clean
  // steps.
  TrainConfig fp16(const std::string& save) const {
    TrainConfig c = with_flags(config(save),
                               "--micro-batch-size 1 --fp16 --train-iters 14 --eval-iters 0 --lr "
                               "1e-3 --loss-scale-window 2 --hysteresis 2");
    c.optimizer.initial_loss_scale = std::ldexp(1.0, 40);
    return c;
  }
  std::vector<bool> skipped(const std::string& save) const {
    std::vector<bool> values;
    for (const Json& value : metric(save, "skipped")) values.push_back(value.get<bool>());
    return values;
  }
};

// In fp32 a power of two only changes the exponent.
TEST_F(LossScaleTest, AConstantPowerOfTwoChangesNoBit) {
  for (const Layout& layout : {Layout{}, kSequence, kSharded}) {
    TrainConfig c = with_layout(config("without"), layout);
    pretrain(c);
    c.run.save = path("with");
    c.optimizer.loss_scale = 1024.0;
    pretrain(c);
    EXPECT_TRUE(equal("without", "with")) << layout.name;
    for (const char* key : {"lm_loss", "grad_norm", "learning_rate"}) {
      EXPECT_EQ(metric("without", key), metric("with", key)) << layout.name;
    }
    EXPECT_EQ(numbers("with", "loss_scale"), std::vector<double>(6, 1024.0));
  }
}

TEST_F(LossScaleTest, Fp16FollowsFp32) {
  TrainConfig c = config("wide");
  pretrain(c);
  set_flags(c, "--fp16 --initial-loss-scale 1024");
  c.run.save = path("narrow");
  pretrain(c);
  EXPECT_EQ(skipped("narrow"), std::vector<bool>(6, false));
  expect_near("narrow", "wide", "lm_loss", 2e-3);
  expect_near("narrow", "wide", "grad_norm", 2e-2);
}

// Every gradient overflows. With hysteresis 3 the first two change nothing, then each halves the
// scale, down to the smallest. Samples are consumed; schedule, Adam and weights do not change.
TEST_F(LossScaleTest, NothingButSamplesMovesInASkippedIteration) {
  for (const Layout& layout : {Layout{}, kSequence, kSharded, kGathered}) {
    TrainConfig c =
        with_flags(with_layout(fp16("run"), layout), "--train-iters 6 --lr-warmup-iters 2");
    c.optimizer.initial_loss_scale = std::ldexp(1.0, 60);
    c.optimizer.min_loss_scale = std::ldexp(1.0, 58);
    c.optimizer.hysteresis = 3;
    EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
                AllOf(HasSubstr("nothing was trained"), HasSubstr("--min-loss-scale"),
                      HasSubstr(c.run.save + " is not trained")));
    EXPECT_EQ(skipped("run"), std::vector<bool>(6, true));
    const auto power = [](int n) { return std::ldexp(1.0, n); };
    EXPECT_EQ(numbers("run", "loss_scale"), (std::vector<double>{power(60), power(60), power(59),
                                                                 power(58), power(58), power(58)}));
    EXPECT_EQ(numbers("run", "consumed_samples"), (std::vector<double>{4, 8, 12, 16, 20, 24}));
    EXPECT_EQ(numbers("run", "learning_rate"), std::vector<double>(6, 0.0));
    const auto manifest = CheckpointReader::open(path("run")).manifest();
    EXPECT_EQ(manifest.iteration, 6);
    EXPECT_EQ(manifest.consumed_train_samples, 24);
    EXPECT_EQ(manifest.optimizer.adam_step, 0);
    EXPECT_EQ(manifest.optimizer.schedule_steps, 0);
    EXPECT_EQ(manifest.optimizer.loss_scale, power(58));
    EXPECT_EQ(manifest.optimizer.clean_steps, 0);
    EXPECT_EQ(manifest.optimizer.hysteresis, -3);
    // The weights are those that were drawn.
    c.run.save = path("start");
    set_flags(c, "--loss-scale 1 --train-iters 1 --lr 0 --min-lr 0 --lr-warmup-iters 0");
    pretrain(c);
    auto found = difference("start", "run");
    std::erase_if(found.tensors, [](const TensorDifference& d) {
      return d.name.starts_with(state_prefix("exp_avg")) ||
             d.name.starts_with(state_prefix("exp_avg_sq"));
    });
    EXPECT_TRUE(found.tensors_equal()) << layout.name << "\n" << to_text(found);
  }
}

// The same call again finds nothing left to train and a checkpoint that no step has made.
TEST_F(LossScaleTest, ARunThatTrainedNothingIsAnErrorHoweverOften) {
  TrainConfig c = with_flags(fp16("run"), "--loss-scale 1e30 --hysteresis 2 --train-iters 12");
  c.run.load = c.run.save;
  testing::internal::CaptureStderr();
  EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
              HasSubstr("always 1e+30 (--loss-scale)"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("10 iterations in a row were skipped, to iteration 10"),
                    Not(HasSubstr("in a row were skipped, to iteration 11"))));
  set_flags(c, "--loss-scale 1");
  EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
              AllOf(HasSubstr("never updated"), HasSubstr("--overwrite")));
  // What is left out on purpose is no fault, nor is a run that goes on beyond such a checkpoint.
  set_flags(c, "--train-iters 13 --override-opt_param-scheduler");
  pretrain(c);
  EXPECT_EQ(CheckpointReader::open(path("run")).manifest().optimizer.adam_step, 1);
  c = with_flags(config("left"), "--train-iters 2 --lr-warmup-iters 0");
  c.run.iterations_to_skip = {"1", "2"};
  pretrain(c);
}

// Megatron's rule, applied to the iterations that were skipped.
TEST_F(LossScaleTest, FollowsTheRuleDownAndUp) {
  TrainConfig c = fp16("run");
  c.optimizer.initial_loss_scale = std::ldexp(1.0, 30);
  c.run.train_iters = 24;
  pretrain(c);
  const auto overflows = skipped("run");
  const auto scales = numbers("run", "loss_scale");
  const auto rates = numbers("run", "learning_rate");
  double scale = c.optimizer.initial_loss_scale;
  int clean = 0, hysteresis = 2, skips = 0;
  for (std::size_t i = 0; i < overflows.size(); ++i) {
    if (overflows[i]) {
      clean = 0;
      if (--hysteresis <= 0) scale /= 2;
      ++skips;
      if (i > 0) {
        EXPECT_EQ(rates[i], rates[i - 1]) << i + 1;
      }
    } else if (++clean == 2) {
      clean = 0;
      hysteresis = 2;
      scale *= 2;
    }
    EXPECT_EQ(scales[i], scale) << "iteration " << i + 1;
  }
  std::vector<int> exponents;
  for (const double value : scales) exponents.push_back(std::ilogb(value));
  // 2^21 overflows in this model, 2^20 does not. The first overflow is forgiven, each further one
  // halves; a growth gives the hysteresis back.
  EXPECT_EQ(exponents, (std::vector<int>{30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 20,
                                         21, 21, 20, 20, 21, 21, 20, 20, 21, 21, 20, 20}));
  const auto manifest = CheckpointReader::open(path("run")).manifest();
  EXPECT_EQ(manifest.optimizer.adam_step, 24 - skips);
  EXPECT_EQ(manifest.optimizer.schedule_steps, 4 * (24 - skips));
  EXPECT_EQ(manifest.consumed_train_samples, 4 * 24);
  EXPECT_EQ(manifest.optimizer.loss_scale, scale);
  EXPECT_EQ(manifest.optimizer.clean_steps, clean);
  EXPECT_EQ(manifest.optimizer.hysteresis, hysteresis);
}

// An overflow on one rank is an overflow on all.
TEST_F(LossScaleTest, AllRanksSkipAlike) {
  TrainConfig c = fp16("one");
  c.optimizer.initial_loss_scale = std::ldexp(1.0, 30);
  c.run.train_iters = 20;
  pretrain(c);
  for (const Layout& layout :
       {kSequence, Layout{.name = "d2", .data = 2}, kSharded, kGathered,
        Layout{.name = "d4-zero2-x2", .data = 4, .zero = 2, .copies = 2},
        Layout{.name = "all", .tensor = 2, .data = 2, .sequence = true, .sharded = true}}) {
    TrainConfig ranks = with_layout(c, layout);
    ranks.run.save = path(layout.name);
    pretrain(ranks);
    EXPECT_EQ(skipped(layout.name), skipped("one")) << layout.name;
    EXPECT_EQ(metric(layout.name, "loss_scale"), metric("one", "loss_scale")) << layout.name;
    expect_near(layout.name, "one", "lm_loss", 2e-3);
  }
}

TEST_F(LossScaleTest, ResumesInTheMiddleOfATrajectory) {
  for (const Layout& layout : {Layout{}, kSequence, kSharded, kGathered}) {
    TrainConfig c = with_layout(fp16("straight"), layout);
    c.optimizer.initial_loss_scale = std::ldexp(1.0, 28);
    std::filesystem::remove_all(path("parts"));
    expect_resume_is_bitwise(c, 5);
    const auto overflows = skipped("straight");
    EXPECT_TRUE(overflows[3]) << "the trajectory has to go on over the break";
    EXPECT_FALSE(overflows.back() && overflows[12]);
  }
}

TEST_F(LossScaleTest, TheLogCountsSkippedIterations) {
  TrainConfig c = with_flags(with_layout(fp16(""), kSharded),
                             "--train-iters 4 --log-interval 2 --log-num-zeros-in-grad");
  c.optimizer.initial_loss_scale = std::ldexp(1.0, 60);
  testing::internal::CaptureStderr();
  EXPECT_THAT(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }),
              HasSubstr("--initial-loss-scale"));
  const std::string log = testing::internal::GetCapturedStderr();
  const auto line = [&](int iteration) {
    const auto begin = log.find(fmt::format(" iteration {:8d}/       4 |", iteration));
    EXPECT_NE(begin, std::string::npos) << log;
    return log.substr(begin, log.find('\n', begin) - begin);
  };
  EXPECT_THAT(line(2), HasSubstr(" consumed samples:            8 |"));
  EXPECT_THAT(line(2), HasSubstr(" loss scale: 576460752303423488.0 |"));
  EXPECT_THAT(line(2), HasSubstr(" number of skipped iterations:   2 |"));
  EXPECT_THAT(line(4), HasSubstr(" number of skipped iterations:   2 |"));
  EXPECT_THAT(line(4), HasSubstr(" loss scale: 144115188075855872.0 |"));
  for (const char* absent : {"grad norm", "num zeros", "lm loss"}) {
    EXPECT_THAT(line(4), Not(HasSubstr(absent)));
  }
  c.optimizer.loss_scale = 64.0;
  testing::internal::CaptureStderr();
  pretrain(c);
  const std::string clean = testing::internal::GetCapturedStderr();
  for (const char* present : {" lm loss: ", " loss scale: 64.0 | grad norm: ", " num zeros: ",
                              " number of skipped iterations:   0 |"}) {
    EXPECT_THAT(clean, HasSubstr(present));
  }
}

// Without a loss scale there is nothing to lower.
TEST_F(LossScaleTest, Bf16EndsWhereTheGradientIsNotFinite) {
  TrainConfig c = with_flags(
      with_layout(config("run"), kSharded),
      "--micro-batch-size 1 --bf16 --lr 1e30 --min-lr 0 --lr-warmup-iters 0 --clip-grad 0");
  EXPECT_NE(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }), "no error");
}

}  // namespace
}  // namespace phalanx
