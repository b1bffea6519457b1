#include "phalanx/train/pretrain.h"

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/schedule_flags.h"
#include "phalanx/start/run_data.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

class PretrainTest : public RunTest {
 protected:
  // What the run logs.
  static std::string said_by(const TrainConfig& c) {
    testing::internal::CaptureStderr();
    train(c);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(PretrainTest, LearnsAndResumesBitwise) {
  expect_resume_is_bitwise(config("straight"));
  const auto values = losses("straight");
  ASSERT_EQ(values.size(), 6U);
  EXPECT_LT(values.back(), values.front());
}

TEST_F(PretrainTest, TwoThreadsResumeBitwise) {
  expect_resume_is_bitwise(
      with_flags(
          config("straight"),
          "--num-layers 1 --threads-per-rank 2 --train-iters 2 --lr-warmup-iters 0 --eval-iters 0"),
      1);
}

TEST_F(PretrainTest, Bf16ResumesBitwiseAndFollowsFp32) {
  TrainConfig c = with_flags(config("straight"), "--bf16 --hidden-dropout 0 --attention-dropout 0");
  expect_resume_is_bitwise(c);
  c.model.bf16 = false;
  c.run.save = path("fp32");
  pretrain(c);
  expect_near("straight", "fp32", "lm_loss", 2e-3);
}

// With dropout: masks are functions of the sample, not of its microbatch.
TEST_F(PretrainTest, AccumulationDoesNotChangeTheRun) {
  pretrain(config("two"));
  TrainConfig one = with_flags(config("one"), "--micro-batch-size 1");
  pretrain(one);
  TrainConfig four = with_flags(config("four"), "--micro-batch-size 4");
  pretrain(four);
  for (const char* other : {"one", "four"}) expect_near(other, "two", "lm_loss", 1e-5);
}

TEST_F(PretrainTest, UnfusedAttentionAgrees) {
  pretrain(config("fused"));
  pretrain(with_flags(config("unfused"), "--attention-backend unfused"));
  expect_near("unfused", "fused", "lm_loss", 1e-5);
}

// More padding of the vocabulary gives the same losses.
TEST_F(PretrainTest, PaddingDoesNotChangeTheLoss) {
  pretrain(config("little"));
  pretrain(with_flags(config("much"), "--make-vocab-size-divisible-by 128"));
  expect_near("much", "little", "lm_loss", 1e-5);
}

// Without masked tokens the two averages are equal. The norm is compared because Adam and clipping
// hide the gradient's scale from the losses.
TEST_F(PretrainTest, LossAveragesAgreeWhereNothingIsMasked) {
  TrainConfig c = config("token");
  pretrain(c);
  c.run.save = path("microbatch");
  c.optimizer.loss_average = "microbatch";
  pretrain(c);
  const auto token = numbers("token", "grad_norm");
  const auto microbatch = numbers("microbatch", "grad_norm");
  ASSERT_EQ(token.size(), 6U);
  EXPECT_NEAR(microbatch[0], token[0], 1e-5 * token[0]);
}

// Masked tokens: the mean over all tokens of the batch and the mean of means differ, and both
// train.
TEST_F(PretrainTest, LossAverages) {
  TrainConfig c =
      with_flags(config("token"), "--eod-mask-loss --reset-position-ids --reset-attention-mask");
  pretrain(c);
  c.run.save = path("microbatch");
  c.optimizer.loss_average = "microbatch";
  pretrain(c);
  const auto token = losses("token");
  const auto microbatch = losses("microbatch");
  EXPECT_NE(token[0], microbatch[0]);
  EXPECT_NEAR(token[0], microbatch[0], 0.01);
  EXPECT_NE(token[5], microbatch[5]);
  EXPECT_NEAR(token[5], microbatch[5], 0.1);
}

TEST_F(PretrainTest, ASignalSavesTheStepItFinishes) {
  TrainConfig c = config("parts");
  c.run.load = c.run.save;
  set_flags(c, "--train-iters 100000 --lr-decay-iters 6");
  EXPECT_EQ(stop_after(c, "\"iteration\": 3"), RunEnd::kPreempted);
  const auto stopped = CheckpointReader::open(path("parts")).manifest().iteration;
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, 100000);
  EXPECT_EQ(metric("parts", "iteration").back(), stopped);
}

TEST_F(PretrainTest, AFinishedRunAddsNoLines) {
  TrainConfig c = config("run");
  pretrain(c);
  const std::string before = metrics_text("run");
  c.run.load = c.run.save;
  EXPECT_EQ(pretrain(c), RunEnd::kFinished);
  EXPECT_EQ(metrics_text("run"), before);
}

TEST_F(PretrainTest, RefusesToResumeWhatItCannotContinue) {
  TrainConfig c = config("run");
  pretrain(c);
  c.run.load = c.run.save;
  c.model.hidden_size = 64;
  EXPECT_THROW(pretrain(c), ConfigError);
  set_flags(c, "--hidden-size 32 --lr 2e-2");
  EXPECT_THROW(pretrain(c), ConfigError);
  c.optimizer.use_checkpoint_opt_param_scheduler = true;
  EXPECT_EQ(pretrain(c), RunEnd::kFinished);
}

// Weights that the model does not have would be lost, so no flag permits this.
TEST_F(PretrainTest, RefusesToDropWeights) {
  TrainConfig c = config("run");
  pretrain(c);
  c.run.load = c.run.save;
  c.model.num_layers -= 1;
  c.run.allow_changed = {"num_layers"};
  EXPECT_THAT(error_of<ConfigError>([&] { pretrain(c); }), testing::HasSubstr("decoder.layers.1"));
}

// As in Megatron, where the interval divides the last iteration there is an evaluation like the
// others, and the evaluation at the end reads the samples after it.
TEST_F(PretrainTest, TheLastIterationIsEvaluatedTwice) {
  train(config("run"));
  std::vector<std::string> evaluated;
  std::vector<double> found;
  for (const Json& line : metrics("run")) {
    if (!line.contains("eval")) continue;
    evaluated.push_back(
        fmt::format("{} {}", line.at("iteration").get<int>(), line.at("eval").get<std::string>()));
    found.push_back(line.at("lm_loss").get<double>());
  }
  EXPECT_EQ(evaluated,
            (std::vector<std::string>{"2 valid", "4 valid", "6 valid", "6 valid", "6 test"}));
  EXPECT_NE(found[2], found[3]);
  const Manifest manifest = CheckpointReader::open(path("run")).manifest();
  EXPECT_EQ(manifest.consumed_valid_samples, 3 * 4);
  EXPECT_EQ(manifest.requested_samples.valid, 4 * 4);
}

// A checkpoint with a whole number of warm-up samples has the same schedule.
TEST_F(PretrainTest, AWarmupInSamplesIsAWholeNumberInTheCheckpoint) {
  train(config("run"));
  const auto arguments = CheckpointReader::open(path("run")).manifest().arguments;
  EXPECT_EQ(arguments.at("schedule.warmup_samples"), "8");
  TrainConfig c = with_flags(config("share"), "--eval-iters 0");
  c.run.load = c.run.save;
  set_flags(c, "--lr-warmup-iters 0 --lr-warmup-fraction 0.3");
  train(c);
  EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().arguments.at("schedule.warmup_samples"),
            fmt::format("{}", 0.3 * 24));
  set_flags(c, "--train-iters 7 --lr-decay-iters 6");
  train(c);
  set_flags(c, "--train-iters 8 --lr-warmup-fraction 0.31");
  EXPECT_THROW(pretrain(c), ConfigError);
  c.optimizer.use_checkpoint_opt_param_scheduler = true;
  train(c);
}

// A longer run keeps the data order it began with while there are enough samples. Otherwise the
// error says what to do.
TEST_F(PretrainTest, ALongerRunKeepsItsOrderWhileTheSamplesLast) {
  TrainConfig c = with_flags(config("run"), "--lr-decay-iters 6");
  pretrain(c);
  c.run.load = c.run.save;
  c.run.train_iters = 7;
  EXPECT_EQ(pretrain(c), RunEnd::kFinished);
  const auto manifest = CheckpointReader::open(path("run")).manifest();
  EXPECT_EQ(manifest.iteration, 7);
  EXPECT_EQ(manifest.requested_samples.train, 24);
  c.run.train_iters = 400;
  EXPECT_THROW(pretrain(c), ConfigError);
}

// The rest of a run and its schedule are counted in samples, with any batches before.
TEST_F(PretrainTest, AnotherBatchTrainsTheSamplesThatAreLeft) {
  TrainConfig c =
      with_flags(config("run"),
                 "--train-iters 0 --train-samples 48 --lr-warmup-iters 0 --lr-warmup-samples 8");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  set_flags(c, "--exit-interval 0 --global-batch-size 8");
  EXPECT_NE(said_by(c).find("4 of 48 samples are left over"), std::string::npos);
  EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().consumed_train_samples, 44);
  c.layout.global_batch_size = 2;
  train(c);
  EXPECT_EQ(metric("run", "consumed_samples"),
            (std::vector<Json>{4, 8, 12, 20, 28, 36, 44, 46, 48}));
  resolve(c, true);
  const ParameterSchedule schedule = parameter_schedule(c);
  for (const Json& line : training_metrics("run")) {
    EXPECT_EQ(line.at("learning_rate").get<double>(),
              schedule.learning_rate(line.at("consumed_samples").get<std::int64_t>()));
  }
  // Nothing is left.
  const std::string before = metrics_text("run");
  c.layout.global_batch_size = 4;
  EXPECT_NE(said_by(c).find("nothing is left to train after iteration 9"), std::string::npos);
  EXPECT_EQ(metrics_text("run"), before);
}

// A schedule in iterations depends on the batch.
TEST_F(PretrainTest, AnotherBatchOfARunInIterationsIsAskedFor) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  set_flags(c, "--exit-interval 0 --global-batch-size 8");
  EXPECT_THROW(pretrain(c), ConfigError);
  c.optimizer.override_opt_param_scheduler = true;
  train(c);
  EXPECT_EQ(metric("run", "consumed_samples"), (std::vector<Json>{4, 8, 12, 20, 28, 36}));
}

TEST_F(PretrainTest, StopsWhereTheGradientIsNotFinite) {
  TrainConfig c =
      with_flags(config("run"), "--lr 1e30 --min-lr 0 --lr-warmup-iters 0 --clip-grad 0");
  EXPECT_NE(error_of(ErrorCode::kDoNotRestart, [&] { pretrain(c); }), "no error");
}

}  // namespace
}  // namespace phalanx
