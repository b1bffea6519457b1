#include "phalanx/rules/resolve.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/rules/test_support.h"
#include "phalanx/settings/schedule_flags.h"

namespace phalanx {
namespace {

using config_tests::expect_refused;
using config_tests::kTwoTensorRanks;
using config_tests::resolved;

TEST(TrainConfig, SchedulesAreInSamples) {
  const std::string wsd =
      "--lr-decay-style WSD --lr-wsd-decay-style minus_sqrt --lr-wsd-decay-iters 20 "
      "--lr-warmup-iters 5 --decoupled-lr 5e-3";
  ParameterSchedule s = parameter_schedule(resolved(wsd));
  EXPECT_EQ(s.decay_style, DecayStyle::kWarmupStableDecay);
  EXPECT_EQ(s.stable_decay_style, StableDecayStyle::kMinusSquareRoot);
  EXPECT_EQ(s.stable_decay_samples, 160);
  EXPECT_EQ(s.decay_samples, 800);
  EXPECT_EQ(s.warmup_samples, 40);
  EXPECT_EQ(s.decoupled->max_lr, 5e-3);
  EXPECT_EQ(s.decoupled->min_lr, 0.0);
  s = parameter_schedule(resolved(wsd + " --min-lr 1e-4"));
  EXPECT_EQ(s.decoupled->min_lr, 1e-4);
  s = parameter_schedule(resolved(wsd + " --min-lr 1e-4 --decoupled-min-lr 2e-4"));
  EXPECT_EQ(s.decoupled->min_lr, 2e-4);
}

TEST(TrainConfig, BlocksOfFilesAreAligned) {
  expect_refused("--aio-block-size 5000", {"--aio-block-size 5000 is not a multiple of 4096"});
  EXPECT_EQ(resolved("--aio-block-size 8192").layout.aio_block_size, 8192);
}

TEST(TrainConfig, RefusesSchedulesThatContradict) {
  expect_refused("--lr-decay-style WSD", {"--lr-decay-style WSD needs --lr-wsd-decay-iters"});
  expect_refused("--lr-decay-style WSD --train-iters 0 --train-samples 800",
                 {"--lr-decay-style WSD needs --lr-wsd-decay-samples"});
  expect_refused("--lr-decay-style WSD --lr-wsd-decay-iters 101",
                 {"--lr-wsd-decay-iters", "808", "800"});
  expect_refused("--lr-wsd-decay-iters 5",
                 {"--lr-wsd-decay-iters", "--lr-decay-style WSD", "linear"});
  expect_refused("--lr-wsd-decay-style cosine", {"--lr-wsd-decay-style", "--lr-decay-style WSD"});
  expect_refused("--lr-wsd-decay-style constant", "--lr-wsd-decay-style");
  expect_refused("--lr-wsd-decay-iters 1152921504606846976", "--lr-wsd-decay-iters");
  expect_refused("--decoupled-lr 1e-4 --decoupled-min-lr 2e-4",
                 {"--decoupled-min-lr 0.0002 is above --decoupled-lr 0.0001"});
  expect_refused("--min-lr 2e-4 --decoupled-lr 1e-4",
                 {"--min-lr 0.0002 is above --decoupled-lr 0.0001", "--decoupled-min-lr"});
  expect_refused("--lr-warmup-init 5e-4 --decoupled-lr 1e-4",
                 {"--lr-warmup-init 0.0005 is above --decoupled-lr 0.0001"});
}

TEST(TrainConfig, FlagsOfAnotherOptimizerAreNotIgnored) {
  const auto rule = [](const std::string& flags) {
    return optimizer_settings(resolved(flags).optimizer).rule;
  };
  EXPECT_EQ(std::get<SgdRule>(rule("--optimizer sgd --sgd-momentum 0.5")).momentum, 0.5);
  EXPECT_TRUE(std::holds_alternative<AdamRule>(rule("--sgd-momentum 0.9")));
  expect_refused("--sgd-momentum 0.5", {"--sgd-momentum 0.5", "--optimizer adam"});
  expect_refused("--optimizer sgd --sgd-momentum 1", "--sgd-momentum");
  expect_refused("--optimizer sgd --adam-beta2 0.95", {"--adam-beta2 0.95", "--optimizer sgd"});
  expect_refused("--optimizer muon", "--optimizer");
}

TEST(TrainConfig, DerivesWhatIsOpen) {
  TrainConfig c = resolved();
  EXPECT_EQ(c.model.ffn_hidden_size, 256);
  EXPECT_EQ(c.model.kv_channels, 16);
  EXPECT_EQ(c.model.num_query_groups, 4);
  EXPECT_GE(c.layout.threads_per_rank, 1);
  EXPECT_EQ(num_microbatches(c.layout), 4);
  const GptConfig model = gpt_config(c, 50257);
  EXPECT_EQ(model.padded_vocabulary, 50304);
  resolve(c, true);  // resolving twice changes nothing
  EXPECT_EQ(c.model.ffn_hidden_size, 256);
}

TEST(TrainConfig, CountsSamplesOfSchedules) {
  const TrainConfig c = resolved("--lr-decay-iters 50 --lr-warmup-fraction 0.1");
  EXPECT_EQ(parameter_schedule(c).decay_samples, 400);
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 40);
  TrainConfig s = resolved("--train-iters 0 --train-samples 1004 --lr-warmup-samples 10");
  EXPECT_EQ(parameter_schedule(s).decay_samples, 1004);
  EXPECT_EQ(parameter_schedule(s).warmup_samples, 10);
  s = resolved(s, "--lr-decay-style WSD --lr-wsd-decay-samples 77");
  EXPECT_EQ(parameter_schedule(s).stable_decay_samples, 77);
  // A share of the decay is as it comes, and no whole number of samples or iterations.
  s = resolved(s,
               "--lr-decay-style linear --lr-wsd-decay-samples 0 --lr-warmup-samples 0 "
               "--lr-warmup-fraction 0.01");
  EXPECT_DOUBLE_EQ(parameter_schedule(s).warmup_samples, 10.04);
}

TEST(TrainConfig, RefusesWithTheFlagsName) {
  expect_refused("--num-layers 0", "--num-layers");
  expect_refused("--hidden-size 65", "--num-attention-heads");
  expect_refused("--max-position-embeddings 8", "--seq-length");
  expect_refused("--global-batch-size 7", "--micro-batch-size");
  expect_refused("--micro-batch-size 0", "--micro-batch-size");
  expect_refused("--global-batch-size -8", "--global-batch-size");
  expect_refused("--loss-average sample", "--loss-average sample");
  expect_refused("--data-order random", "--data-order random");
  expect_refused("--hidden-dropout 1", "--hidden-dropout");
  expect_refused("--attention-dropout -0.1", "--attention-dropout");
  expect_refused("--lr", "--lr");
  expect_refused("--min-lr 1", "--min-lr");
  expect_refused("--train-samples 5", "--train-samples");
  expect_refused("--lr-warmup-samples 5", "--lr-warmup-samples");
  expect_refused("--lr-warmup-iters 100", "warm-up");
  expect_refused("--lr-decay-style cosin", "--lr-decay-style");
  expect_refused("--matmul-precision bf16", "--bf16");
  expect_refused("--matmul-precision fp8", "--matmul-precision");
  expect_refused("--attention-backend flash", "--attention-backend");
  expect_refused("--data-path", "--data-path");
  expect_refused("--save x", "--save-interval");
  const std::string saves = "--save x --save-interval 1 ";
  expect_refused(saves + "--save-copy y", "--save-copy-interval");
  expect_refused(saves + "--save-copy-interval 1 --save-copy ./x/", {"--save-copy", "--save"});
  expect_refused(saves + "--non-persistent-save-interval 1", "--non-persistent-ckpt-type global");
  for (const std::string type : {"local", "in_memory"}) {
    expect_refused("--non-persistent-ckpt-type " + type, {type, "give global"});
  }
  expect_refused("--seed 0", "--seed");
  expect_refused("--lr-wsd-decay-samples 5", {"--lr-wsd-decay-samples", "--train-samples"});
  expect_refused("--start-weight-decay 0", "--weight-decay-incr-style");
  expect_refused("--group-query-attention --num-query-groups 3", "--num-query-groups");
}
TEST(TrainConfig, RefusesContradictoryPrecision) {
  expect_refused("--fp16 --bf16", {"--fp16", "--bf16"});
  expect_refused("--fp16 --matmul-precision bf16", {"--matmul-precision bf16", "--bf16"});
  expect_refused("--fp32-residual-connection", {"--fp32-residual-connection", "--fp16", "--bf16"});
  expect_refused("--bf16 --fp32-residual-connection --family bert --post-layernorm",
                 {"--fp32-residual-connection", "--post-layernorm"});
  expect_refused("--loss-scale 0", "--loss-scale");
  expect_refused("--initial-loss-scale 0.5", {"--initial-loss-scale 0.5", "--min-loss-scale 1"});
  expect_refused("--initial-loss-scale inf", "--initial-loss-scale");
  expect_refused("--min-loss-scale 0", "--min-loss-scale");
  expect_refused("--loss-scale-window 0", "--loss-scale-window");
  expect_refused("--hysteresis 0", "--hysteresis");
}

TEST(TrainConfig, ScalesTheLossDynamicallyInFp16Alone) {
  for (const bool bf16 : {false, true}) {
    const LossScaler none = loss_scaler(resolved(fmt::format("--bf16 {}", bf16)));
    EXPECT_FALSE(none.is_dynamic());
    EXPECT_EQ(none.scale(), 1.0);
  }
  LossScaler dynamic = loss_scaler(resolved(
      "--fp16 --initial-loss-scale 64 --min-loss-scale 24 --loss-scale-window 3 --hysteresis 1"));
  EXPECT_TRUE(dynamic.is_dynamic());
  EXPECT_EQ(dynamic.scale(), 64.0);
  for (int i = 0; i < 2; ++i) dynamic.update(true);
  EXPECT_EQ(dynamic.scale(), 24.0);
  for (int i = 0; i < 3; ++i) dynamic.update(false);
  EXPECT_EQ(dynamic.scale(), 48.0);
  const LossScaler constant = loss_scaler(resolved("--fp16 --loss-scale 128"));
  EXPECT_FALSE(constant.is_dynamic());
  EXPECT_EQ(constant.scale(), 128.0);
}

TEST(TrainConfig, BuildsTheModelOfARank) {
  const TrainConfig c = resolved(kTwoTensorRanks +
                                 " --fp16 --fp32-residual-connection --sequence-parallel "
                                 "--no-async-tensor-model-parallel-allreduce");
  const GptConfig model = gpt_config(c, 50257);
  EXPECT_EQ(model.padded_vocabulary, 50432);
  EXPECT_EQ(model.transformer.dtype, DType::kF16);
  EXPECT_TRUE(model.transformer.fp32_residual);
  EXPECT_EQ(model.transformer.tensor.rank, 0);
  EXPECT_EQ(model.transformer.tensor.size, 2);
  EXPECT_TRUE(model.transformer.tensor.sequence);
  EXPECT_FALSE(model.transformer.tensor.async_reduce);
  EXPECT_EQ(gpt_config(resolved("--bf16"), 10).transformer.dtype, DType::kBF16);
  const GptConfig plain = gpt_config(resolved(), 10);
  EXPECT_EQ(plain.transformer.dtype, DType::kF32);
  EXPECT_FALSE(plain.transformer.fp32_residual);
  EXPECT_EQ(plain.transformer.tensor.size, 1);
  EXPECT_TRUE(plain.transformer.tensor.async_reduce);
}

TEST(TrainConfig, InferenceTakesTheModelAndTheData) {
  TrainConfig c = for_inference(
      resolved(kTwoTensorRanks +
               " --sequence-parallel --fp16 --use-distributed-optimizer --overlap-grad-reduce "
               "--overlap-param-gather --recompute-granularity full --recompute-method block"));
  resolve(c, false);
  EXPECT_EQ(rank_grid(c.layout).world_size(), 1);
  EXPECT_EQ(c.layout.global_batch_size, 1);
  const GptConfig model = gpt_config(c, 50257);
  EXPECT_EQ(model.padded_vocabulary, 50304);
  EXPECT_FALSE(model.transformer.tensor.sequence);
  EXPECT_EQ(model.transformer.dtype, DType::kF16);
}

}  // namespace
}  // namespace phalanx