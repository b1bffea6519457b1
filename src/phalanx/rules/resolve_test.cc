#include "phalanx/rules/resolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/rules/test_support.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {
namespace {

using config_tests::Change;
using config_tests::expect_refused;
using config_tests::resolved;
using config_tests::two_tensor_ranks;
using config_tests::valid;

TEST(TrainConfig, SchedulesAreInSamples) {
  const auto wsd = [](TrainConfig& c) {
    c.optimizer.lr_decay_style = "WSD";
    c.optimizer.lr_wsd_decay_style = "minus_sqrt";
    c.optimizer.lr_wsd_decay_iters = 20;
    c.optimizer.lr_warmup_iters = 5;
    c.optimizer.decoupled_lr = 5e-3;
  };
  ParameterSchedule s = parameter_schedule(resolved(wsd));
  EXPECT_EQ(s.decay_style, DecayStyle::kWarmupStableDecay);
  EXPECT_EQ(s.stable_decay_style, StableDecayStyle::kMinusSquareRoot);
  EXPECT_EQ(s.stable_decay_samples, 160);
  EXPECT_EQ(s.decay_samples, 800);
  EXPECT_EQ(s.warmup_samples, 40);
  EXPECT_EQ(s.decoupled->max_lr, 5e-3);
  EXPECT_EQ(s.decoupled->min_lr, 0.0);
  s = parameter_schedule(resolved([&](TrainConfig& c) {
    wsd(c);
    c.optimizer.min_lr = 1e-4;
  }));
  EXPECT_EQ(s.decoupled->min_lr, 1e-4);
  s = parameter_schedule(resolved([&](TrainConfig& c) {
    wsd(c);
    c.optimizer.min_lr = 1e-4;
    c.optimizer.decoupled_min_lr = 2e-4;
  }));
  EXPECT_EQ(s.decoupled->min_lr, 2e-4);
}

TEST(TrainConfig, BlocksOfFilesAreAligned) {
  expect_refused([](TrainConfig& c) { c.layout.aio_block_size = 5000; },
                 {"--aio-block-size 5000 is not a multiple of 4096"});
  EXPECT_EQ(resolved([](TrainConfig& c) { c.layout.aio_block_size = 8192; }).layout.aio_block_size,
            8192);
}

TEST(TrainConfig, RefusesSchedulesThatContradict) {
  expect_refused([](TrainConfig& c) { c.optimizer.lr_decay_style = "WSD"; },
                 {"--lr-decay-style WSD needs --lr-wsd-decay-iters"});
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.lr_decay_style = "WSD";
        c.run.train_iters = 0;
        c.run.train_samples = 800;
      },
      {"--lr-decay-style WSD needs --lr-wsd-decay-samples"});
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.lr_decay_style = "WSD";
        c.optimizer.lr_wsd_decay_iters = 101;
      },
      {"--lr-wsd-decay-iters", "808", "800"});
  expect_refused([](TrainConfig& c) { c.optimizer.lr_wsd_decay_iters = 5; },
                 {"--lr-wsd-decay-iters", "--lr-decay-style WSD", "linear"});
  expect_refused([](TrainConfig& c) { c.optimizer.lr_wsd_decay_style = "cosine"; },
                 {"--lr-wsd-decay-style", "--lr-decay-style WSD"});
  expect_refused([](TrainConfig& c) { c.optimizer.lr_wsd_decay_style = "constant"; },
                 "--lr-wsd-decay-style");
  expect_refused([](TrainConfig& c) { c.optimizer.lr_wsd_decay_iters = 1LL << 60; },
                 "--lr-wsd-decay-iters");
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.decoupled_lr = 1e-4;
        c.optimizer.decoupled_min_lr = 2e-4;
      },
      {"--decoupled-min-lr 0.0002 is above --decoupled-lr 0.0001"});
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.min_lr = 2e-4;
        c.optimizer.decoupled_lr = 1e-4;
      },
      {"--min-lr 0.0002 is above --decoupled-lr 0.0001", "--decoupled-min-lr"});
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.lr_warmup_init = 5e-4;
        c.optimizer.decoupled_lr = 1e-4;
      },
      {"--lr-warmup-init 0.0005 is above --decoupled-lr 0.0001"});
}

TEST(TrainConfig, FlagsOfAnotherOptimizerAreNotIgnored) {
  const auto sgd = [](const Change& change) {
    return [change](TrainConfig& c) {
      c.optimizer.optimizer = "sgd";
      change(c);
    };
  };
  const auto momentum = [](double value) {
    return [value](TrainConfig& c) { c.optimizer.sgd_momentum = value; };
  };
  const auto rule = optimizer_settings(resolved(sgd(momentum(0.5))).optimizer).rule;
  EXPECT_EQ(std::get<SgdRule>(rule).momentum, 0.5);
  EXPECT_TRUE(
      std::holds_alternative<AdamRule>(optimizer_settings(resolved(momentum(0.9)).optimizer).rule));
  expect_refused(momentum(0.5), {"--sgd-momentum 0.5", "--optimizer adam"});
  expect_refused(sgd(momentum(1.0)), "--sgd-momentum");
  expect_refused(sgd([](TrainConfig& c) { c.optimizer.adam_beta2 = 0.95; }),
                 {"--adam-beta2 0.95", "--optimizer sgd"});
  expect_refused([](TrainConfig& c) { c.optimizer.optimizer = "muon"; }, "--optimizer");
}

TEST(TrainConfig, DerivesWhatIsOpen) {
  TrainConfig c = valid();
  resolve(c, true);
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
  TrainConfig c = valid();
  c.optimizer.lr_decay_iters = 50;
  c.optimizer.lr_warmup_fraction = 0.1;
  resolve(c, true);
  EXPECT_EQ(parameter_schedule(c).decay_samples, 400);
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 40);
  TrainConfig s = valid();
  s.run.train_iters = 0;
  s.run.train_samples = 1004;
  s.optimizer.lr_warmup_samples = 10;
  resolve(s, true);
  EXPECT_EQ(parameter_schedule(s).decay_samples, 1004);
  EXPECT_EQ(parameter_schedule(s).warmup_samples, 10);
  s.optimizer.lr_decay_style = "WSD";
  s.optimizer.lr_wsd_decay_samples = 77;
  resolve(s, true);
  EXPECT_EQ(parameter_schedule(s).stable_decay_samples, 77);
  s.optimizer.lr_decay_style = "linear";
  s.optimizer.lr_wsd_decay_samples = 0;
  // A share of the decay is as it comes, and no whole number of samples or iterations.
  s.optimizer.lr_warmup_samples = 0;
  s.optimizer.lr_warmup_fraction = 0.01;
  resolve(s, true);
  EXPECT_DOUBLE_EQ(parameter_schedule(s).warmup_samples, 10.04);
}

TEST(TrainConfig, RefusesWithTheFlagsName) {
  expect_refused([](TrainConfig& c) { c.model.num_layers = 0; }, "--num-layers");
  expect_refused([](TrainConfig& c) { c.model.hidden_size = 65; }, "--num-attention-heads");
  expect_refused([](TrainConfig& c) { c.model.max_position_embeddings = 8; }, "--seq-length");
  expect_refused([](TrainConfig& c) { c.layout.global_batch_size = 7; }, "--micro-batch-size");
  expect_refused([](TrainConfig& c) { c.layout.micro_batch_size = 0; }, "--micro-batch-size");
  expect_refused([](TrainConfig& c) { c.layout.global_batch_size = -8; }, "--global-batch-size");
  expect_refused([](TrainConfig& c) { c.optimizer.loss_average = "sample"; },
                 "--loss-average sample");
  expect_refused([](TrainConfig& c) { c.data.data_order = "random"; }, "--data-order random");
  expect_refused([](TrainConfig& c) { c.model.hidden_dropout = 1.0; }, "--hidden-dropout");
  expect_refused([](TrainConfig& c) { c.model.attention_dropout = -0.1; }, "--attention-dropout");
  expect_refused([](TrainConfig& c) { c.optimizer.lr.reset(); }, "--lr");
  expect_refused([](TrainConfig& c) { c.optimizer.min_lr = 1.0; }, "--min-lr");
  expect_refused([](TrainConfig& c) { c.run.train_samples = 5; }, "--train-samples");
  expect_refused([](TrainConfig& c) { c.optimizer.lr_warmup_samples = 5; }, "--lr-warmup-samples");
  expect_refused([](TrainConfig& c) { c.optimizer.lr_warmup_iters = 100; }, "warm-up");
  expect_refused([](TrainConfig& c) { c.optimizer.lr_decay_style = "cosin"; }, "--lr-decay-style");
  expect_refused([](TrainConfig& c) { c.model.matmul_precision = "bf16"; }, "--bf16");
  expect_refused([](TrainConfig& c) { c.model.matmul_precision = "fp8"; }, "--matmul-precision");
  expect_refused([](TrainConfig& c) { c.model.attention_backend = "flash"; },
                 "--attention-backend");
  expect_refused([](TrainConfig& c) { c.data.data_path.clear(); }, "--data-path");
  expect_refused([](TrainConfig& c) { c.run.save = "x"; }, "--save-interval");
  expect_refused([](TrainConfig& c) { c.run.seed = 0; }, "--seed");
  expect_refused([](TrainConfig& c) { c.optimizer.lr_wsd_decay_samples = 5; },
                 {"--lr-wsd-decay-samples", "--train-samples"});
  expect_refused([](TrainConfig& c) { c.optimizer.start_weight_decay = 0.0; },
                 "--weight-decay-incr-style");
  expect_refused(
      [](TrainConfig& c) {
        c.model.group_query_attention = true;
        c.model.num_query_groups = 3;
      },
      "--num-query-groups");
}
TEST(TrainConfig, RefusesContradictoryPrecision) {
  expect_refused(
      [](TrainConfig& c) {
        c.model.fp16 = true;
        c.model.bf16 = true;
      },
      {"--fp16", "--bf16"});
  expect_refused(
      [](TrainConfig& c) {
        c.model.fp16 = true;
        c.model.matmul_precision = "bf16";
      },
      {"--matmul-precision bf16", "--bf16"});
  expect_refused([](TrainConfig& c) { c.model.fp32_residual_connection = true; },
                 {"--fp32-residual-connection", "--fp16", "--bf16"});
  expect_refused(
      [](TrainConfig& c) {
        c.model.bf16 = true;
        c.model.fp32_residual_connection = true;
        c.model.family = "bert";
        c.model.post_layernorm = true;
      },
      {"--fp32-residual-connection", "--post-layernorm"});
  expect_refused([](TrainConfig& c) { c.optimizer.loss_scale = 0; }, "--loss-scale");
  expect_refused([](TrainConfig& c) { c.optimizer.initial_loss_scale = 0.5; },
                 {"--initial-loss-scale 0.5", "--min-loss-scale 1"});
  expect_refused(
      [](TrainConfig& c) {
        c.optimizer.initial_loss_scale = std::numeric_limits<double>::infinity();
      },
      "--initial-loss-scale");
  expect_refused([](TrainConfig& c) { c.optimizer.min_loss_scale = 0; }, "--min-loss-scale");
  expect_refused([](TrainConfig& c) { c.optimizer.loss_scale_window = 0; }, "--loss-scale-window");
  expect_refused([](TrainConfig& c) { c.optimizer.hysteresis = 0; }, "--hysteresis");
}

TEST(TrainConfig, ScalesTheLossDynamicallyInFp16Alone) {
  for (const bool bf16 : {false, true}) {
    const LossScaler none = loss_scaler(resolved([&](TrainConfig& c) { c.model.bf16 = bf16; }));
    EXPECT_FALSE(none.is_dynamic());
    EXPECT_EQ(none.scale(), 1.0);
  }
  LossScaler dynamic = loss_scaler(resolved([](TrainConfig& c) {
    c.model.fp16 = true;
    c.optimizer.initial_loss_scale = 64;
    c.optimizer.min_loss_scale = 24;
    c.optimizer.loss_scale_window = 3;
    c.optimizer.hysteresis = 1;
  }));
  EXPECT_TRUE(dynamic.is_dynamic());
  EXPECT_EQ(dynamic.scale(), 64.0);
  for (int i = 0; i < 2; ++i) dynamic.update(true);
  EXPECT_EQ(dynamic.scale(), 24.0);
  for (int i = 0; i < 3; ++i) dynamic.update(false);
  EXPECT_EQ(dynamic.scale(), 48.0);
  const LossScaler constant = loss_scaler(resolved([](TrainConfig& c) {
    c.model.fp16 = true;
    c.optimizer.loss_scale = 128;
  }));
  EXPECT_FALSE(constant.is_dynamic());
  EXPECT_EQ(constant.scale(), 128.0);
}

TEST(TrainConfig, BuildsTheModelOfARank) {
  const TrainConfig c = resolved([](TrainConfig& r) {
    two_tensor_ranks(r);
    r.model.fp16 = true;
    r.model.fp32_residual_connection = true;
    r.layout.sequence_parallel = true;
    r.layout.no_async_tensor_model_parallel_allreduce = true;
  });
  const GptConfig model = gpt_config(c, 50257);
  EXPECT_EQ(model.padded_vocabulary, 50432);
  EXPECT_EQ(model.transformer.dtype, DType::kF16);
  EXPECT_TRUE(model.transformer.fp32_residual);
  EXPECT_EQ(model.transformer.tensor.rank, 0);
  EXPECT_EQ(model.transformer.tensor.size, 2);
  EXPECT_TRUE(model.transformer.tensor.sequence);
  EXPECT_FALSE(model.transformer.tensor.async_reduce);
  EXPECT_EQ(gpt_config(resolved([](TrainConfig& r) { r.model.bf16 = true; }), 10).transformer.dtype,
            DType::kBF16);
  const GptConfig plain = gpt_config(resolved([](TrainConfig&) {}), 10);
  EXPECT_EQ(plain.transformer.dtype, DType::kF32);
  EXPECT_FALSE(plain.transformer.fp32_residual);
  EXPECT_EQ(plain.transformer.tensor.size, 1);
  EXPECT_TRUE(plain.transformer.tensor.async_reduce);
}

TEST(TrainConfig, InferenceTakesTheModelAndTheData) {
  TrainConfig c = for_inference(resolved([](TrainConfig& r) {
    two_tensor_ranks(r);
    r.layout.sequence_parallel = true;
    r.model.fp16 = true;
    r.layout.use_distributed_optimizer = true;
    r.layout.overlap_grad_reduce = true;
    r.layout.overlap_param_gather = true;
    r.layout.recompute_granularity = "full";
    r.layout.recompute_method = "block";
  }));
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