// How ranks, threads and recomputation are laid out: what is derived, and what is refused.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using config_tests::Change;
using config_tests::expect_refused;
using config_tests::resolved;
using config_tests::two_tensor_ranks;
using config_tests::valid;

TEST(LayoutConfig, LeavesTheRestOfTheWorldToDataParallelism) {
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

TEST(LayoutConfig, SharesTheCoresOutAmongTheRanks) {
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

TEST(LayoutConfig, SaysWhereTheThreadsComeFrom) {
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

TEST(LayoutConfig, RefusesWorldsThatDoNotDivide) {
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

TEST(LayoutConfig, TensorParallelismCutsEvenly) {
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

TEST(LayoutConfig, SequenceParallelismNeedsTensorParallelism) {
  const auto sequence = [](TrainConfig& c) { c.layout.sequence_parallel = true; };
  EXPECT_FALSE(resolved(sequence).layout.sequence_parallel);
  EXPECT_TRUE(resolved([&](TrainConfig& c) {
                two_tensor_ranks(c);
                sequence(c);
              }).layout.sequence_parallel);
}

TEST(LayoutConfig, OverlapsParameterGatheringOnlyWithItsNeeds) {
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

TEST(LayoutConfig, RecomputesWhatWasAskedFor) {
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

TEST(LayoutConfig, RefusesContradictoryRecomputation) {
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

TEST(LayoutConfig, DistributesSavedActivationsOnlyWithTheirNeeds) {
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

}  // namespace
}  // namespace phalanx
