#include "phalanx/train/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

TrainConfig valid() {
  TrainConfig c;
  c.model.num_layers = 2;
  c.model.hidden_size = 64;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 32;
  c.data.seq_length = 32;
  c.layout.micro_batch_size = 2;
  c.layout.global_batch_size = 8;
  c.run.train_iters = 100;
  c.optimizer.lr = 1e-3;
  c.data.data_path = {"data"};
  return c;
}

using Change = std::function<void(TrainConfig&)>;

// The message must name the flags to blame, and the numbers where they matter.
void expect_refused(const Change& spoil, const std::vector<std::string>& parts) {
  TrainConfig c = valid();
  spoil(c);
  try {
    resolve(c, true);
    FAIL() << parts.front() << " was accepted";
  } catch (const ConfigError& error) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << " is not in: " << error.what();
    }
  }
}
void expect_refused(const Change& spoil, const char* flag) {
  expect_refused(spoil, std::vector<std::string>{flag});
}

TrainConfig resolved(const Change& change) {
  TrainConfig c = valid();
  change(c);
  resolve(c, true);
  return c;
}

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

TEST(TrainConfig, LeavesTheRestOfTheWorldToDataParallelism) {
  const TrainConfig c = resolved([](TrainConfig& r) {
    r.layout.world_size = 8;
    r.layout.tensor_model_parallel_size = 2;
    r.layout.global_batch_size = 0;
  });
  EXPECT_EQ(data_parallel_size(c.layout), 4);
  EXPECT_EQ(c.layout.global_batch_size, 8);
  EXPECT_EQ(num_microbatches(c.layout), 1);
  const RankGrid grid = rank_grid(c.layout);
  EXPECT_EQ(grid.sizes(), (GridSizes{.tensor = 2, .data = 4}));
  EXPECT_EQ(grid.order(), "tp-cp-ep-dp-pp");

  const TrainConfig accumulates = resolved([](TrainConfig& r) {
    r.layout.world_size = 8;
    r.layout.tensor_model_parallel_size = 4;
    r.layout.global_batch_size = 24;
    r.layout.use_tp_pp_dp_mapping = true;
  });
  EXPECT_EQ(num_microbatches(accumulates.layout), 6);
  EXPECT_EQ(rank_grid(accumulates.layout).order(), "tp-cp-ep-pp-dp");
}

TEST(TrainConfig, SharesTheCoresOutAmongTheRanks) {
  const std::int64_t cores = usable_cores().count;
  const auto threads = [](std::int64_t world, std::int64_t given) {
    return resolved([&](TrainConfig& c) {
             c.layout.world_size = world;
             c.layout.global_batch_size = 0;
             c.layout.threads_per_rank = given;
           })
        .layout.threads_per_rank;
  };
  EXPECT_EQ(threads(1, 0), std::max<std::int64_t>(1, cores));
  EXPECT_EQ(threads(2, 0), std::max<std::int64_t>(1, cores / 2));
  EXPECT_EQ(threads(4096, 0), 1);
  EXPECT_EQ(threads(2, 5), 5);
}

TEST(TrainConfig, SaysWhereTheThreadsComeFrom) {
  const auto reason = [](std::int64_t world, std::int64_t given) {
    return resolved([&](TrainConfig& c) {
             c.layout.world_size = world;
             c.layout.global_batch_size = 0;
             c.layout.threads_per_rank = given;
           })
        .layout.threads_reason;
  };
  const std::string cores = usable_cores().reason;
  EXPECT_EQ(reason(1, 0), cores);
  EXPECT_EQ(reason(2, 0), cores + ", shared by 2 ranks");
  EXPECT_EQ(reason(1, 1), "");
  EXPECT_EQ(reason(2, 1000), "as given; usable: " + cores);

  TrainConfig twice = resolved([](TrainConfig& c) {
    c.layout.world_size = 1000;
    c.layout.global_batch_size = 0;
  });
  resolve(twice, true);
  EXPECT_EQ(twice.layout.threads_reason, cores + ", shared by 1000 ranks");
}

TEST(TrainConfig, RefusesWorldsThatDoNotDivide) {
  expect_refused(
      [](TrainConfig& c) {
        c.layout.world_size = 6;
        c.layout.tensor_model_parallel_size = 4;
      },
      {"6 ranks", "--nproc", "--world-size", "--tensor-model-parallel-size 4"});
  expect_refused([](TrainConfig& c) { c.layout.world_size = 0; }, "--nproc");
  expect_refused([](TrainConfig& c) { c.layout.world_size = 1 << 21; }, "--nproc");
  expect_refused([](TrainConfig& c) { c.layout.tensor_model_parallel_size = 0; },
                 "--tensor-model-parallel-size");
  expect_refused(
      [](TrainConfig& c) {
        c.layout.world_size = 6;
        c.layout.pipeline_model_parallel_size = 4;
      },
      {"6 ranks", "--nproc", "--pipeline-model-parallel-size 4"});
  expect_refused([](TrainConfig& c) { c.layout.context_parallel_size = 2; },
                 {"--context-parallel-size 2", "not available in this version"});
  expect_refused([](TrainConfig& c) { c.layout.world_size = 3; },  // 8 samples on 3 ranks of 2
                 {"--global-batch-size 8", "6", "--micro-batch-size 2", "3 data-parallel"});
  expect_refused([](TrainConfig& c) { c.run.distributed_timeout_minutes = 0; },
                 "--distributed-timeout-minutes");
  expect_refused([](TrainConfig& c) { c.layout.threads_per_rank = -1; }, "--threads-per-rank");
  expect_refused([](TrainConfig& c) { c.layout.threads_per_rank = 2000; }, "--threads-per-rank");
  expect_refused([](TrainConfig& c) { c.layout.pipeline_model_parallel_size = 0; },
                 "--pipeline-model-parallel-size");
  expect_refused([](TrainConfig& c) { c.layout.context_parallel_size = 0; },
                 "--context-parallel-size");
}

void two_tensor_ranks(TrainConfig& c) {
  c.layout.world_size = 2;
  c.layout.tensor_model_parallel_size = 2;
}

TEST(TrainConfig, TensorParallelismCutsEvenly) {
  const auto refused = [](const Change& change, const std::vector<std::string>& parts) {
    expect_refused(
        [&](TrainConfig& c) {
          two_tensor_ranks(c);
          change(c);
        },
        parts);
  };
  const std::string size = "--tensor-model-parallel-size 2";
  refused(
      [](TrainConfig& c) {
        c.model.num_attention_heads = 1;
        c.model.hidden_size = 64;
      },
      {"--num-attention-heads 1", size});
  const auto grouped = [](std::int64_t groups) {
    return [groups](TrainConfig& c) {
      c.model.group_query_attention = true;
      c.model.num_attention_heads = 6;
      c.model.kv_channels = 8;
      c.model.num_query_groups = groups;
    };
  };
  refused(grouped(3), {"--num-query-groups 3", size});
  for (const std::int64_t groups : {1, 2, 6}) {
    resolved([&](TrainConfig& c) {
      two_tensor_ranks(c);
      grouped(groups)(c);
    });
  }
  refused([](TrainConfig& c) { c.model.ffn_hidden_size = 129; }, {"--ffn-hidden-size 129", size});
  refused(
      [](TrainConfig& c) {
        c.data.seq_length = 31;
        c.layout.sequence_parallel = true;
      },
      {"--seq-length 31", size, "--sequence-parallel"});
  resolved([](TrainConfig& c) {
    two_tensor_ranks(c);
    c.data.seq_length = 31;
  });
}

TEST(TrainConfig, SequenceParallelismNeedsTensorParallelism) {
  const auto sequence = [](TrainConfig& c) { c.layout.sequence_parallel = true; };
  EXPECT_FALSE(resolved(sequence).layout.sequence_parallel);
  EXPECT_TRUE(resolved([&](TrainConfig& c) {
                two_tensor_ranks(c);
                sequence(c);
              }).layout.sequence_parallel);
}

TEST(TrainConfig, OverlapsParameterGatheringOnlyWithItsNeeds) {
  expect_refused([](TrainConfig& c) { c.layout.overlap_param_gather = true; },
                 {"--overlap-param-gather", "--use-distributed-optimizer"});
  expect_refused(
      [](TrainConfig& c) {
        c.layout.overlap_param_gather = true;
        c.layout.use_distributed_optimizer = true;
      },
      {"--overlap-param-gather", "--overlap-grad-reduce"});
  resolved([](TrainConfig& c) {
    c.layout.overlap_param_gather = true;
    c.layout.use_distributed_optimizer = true;
    c.layout.overlap_grad_reduce = true;
  });
  expect_refused([](TrainConfig& c) { c.layout.ddp_bucket_size = -1; }, "--ddp-bucket-size");
}

TEST(TrainConfig, RecomputesWhatWasAskedFor) {
  const TrainConfig selective =
      resolved([](TrainConfig& c) { c.layout.recompute_granularity = "selective"; });
  EXPECT_EQ(selective.layout.recompute_granularity, "selective");
  EXPECT_EQ(selective.layout.recompute_num_layers, 0);
  EXPECT_TRUE(gpt_config(selective, 100).transformer.recompute_core_attention);
  TrainConfig full = resolved([](TrainConfig& c) {
    c.layout.recompute_granularity = "full";
    c.layout.recompute_method = "uniform";
  });
  EXPECT_EQ(full.layout.recompute_num_layers, 1);
  EXPECT_FALSE(gpt_config(full, 100).transformer.recompute_core_attention);
  EXPECT_EQ(gpt_config(full, 100).recompute.method, RecomputePlan::Method::kUniform);
  EXPECT_EQ(gpt_config(full, 100).recompute.num_layers, 1);
  EXPECT_EQ(gpt_config(selective, 100).recompute.method, RecomputePlan::Method::kNone);
  resolve(full, true);
  const TrainConfig uneven = resolved([](TrainConfig& c) {
    c.model.num_layers = 3;  // the last group has one layer
    c.layout.recompute_granularity = "full";
    c.layout.recompute_method = "uniform";
    c.layout.recompute_num_layers = 2;
  });
  EXPECT_EQ(gpt_config(uneven, 100).recompute.num_layers, 2);
}

TEST(TrainConfig, RefusesContradictoryRecomputation) {
  const auto refused = [](const std::string& granularity, const std::string& method,
                          std::int64_t layers, const std::vector<std::string>& parts) {
    expect_refused(
        [&](TrainConfig& c) {
          c.layout.recompute_granularity = granularity;
          c.layout.recompute_method = method;
          c.layout.recompute_num_layers = layers;
        },
        parts);
  };
  refused("some", "", 0, {"--recompute-granularity some", "selective"});
  refused("full", "", 0, {"--recompute-granularity full", "--recompute-method uniform", "block"});
  refused("full", "blocks", 0, {"--recompute-method blocks"});
  refused("full", "block", 3, {"--recompute-num-layers 3", "--num-layers 2"});
  refused("full", "block", -1, {"--recompute-num-layers"});
  refused("selective", "block", 0, {"--recompute-method", "--recompute-granularity full"});
  refused("selective", "", 1, {"--recompute-num-layers", "--recompute-granularity full"});
  refused("", "uniform", 0, {"--recompute-method", "--recompute-granularity full"});
  refused("", "", 1, {"--recompute-num-layers", "--recompute-granularity full"});
}

TEST(TrainConfig, DistributesSavedActivationsOnlyWithTheirNeeds) {
  const auto full = [](TrainConfig& c) {
    two_tensor_ranks(c);
    c.layout.recompute_granularity = "full";
    c.layout.recompute_method = "block";
    c.layout.distribute_saved_activations = true;
  };
  const GptConfig model = gpt_config(resolved(full), 100);
  EXPECT_EQ(model.recompute.method, RecomputePlan::Method::kBlock);
  EXPECT_EQ(model.recompute.input_shards, 2);
  const std::string flag = "--distribute-saved-activations";
  expect_refused(
      [](TrainConfig& c) {
        two_tensor_ranks(c);
        c.layout.distribute_saved_activations = true;
      },
      {flag, "--recompute-granularity full"});
  expect_refused(
      [&](TrainConfig& c) {
        full(c);
        c.layout.tensor_model_parallel_size = 1;
      },
      {flag, "--tensor-model-parallel-size"});
  expect_refused(
      [&](TrainConfig& c) {
        full(c);
        c.layout.sequence_parallel = true;
      },
      {flag, "--sequence-parallel"});
  expect_refused(
      [&](TrainConfig& c) {
        full(c);
        c.layout.micro_batch_size = 1;
        c.data.seq_length = 31;
        c.model.hidden_size = 63;
        c.model.kv_channels = 16;
      },
      {flag, "--micro-batch-size 1", "--seq-length 31", "--hidden-size 63",
       "--tensor-model-parallel-size 2"});
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
