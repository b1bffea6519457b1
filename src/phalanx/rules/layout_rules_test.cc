// How ranks, threads and recomputation are laid out: what is derived, and what is refused.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using config_tests::expect_refused;
using config_tests::kTwoTensorRanks;
using config_tests::resolved;

TEST(LayoutConfig, PlansNameDevicesAndRunsDoNot) {
  expect_refused("--device cuda:h100-80g", "a device with a name is for phalanx plan");
  TrainConfig c = config_tests::valid();
  set_flags(c, "--device cuda:h100-80g");
  c.layout.world_size = 2;
  resolve(c, false);
  EXPECT_EQ(c.layout.device, "cuda:h100-80g");
}

TEST(LayoutConfig, LeavesTheRestOfTheWorldToDataParallelism) {
  const TrainConfig c =
      resolved("--world-size 8 --tensor-model-parallel-size 2 --global-batch-size 0");
  EXPECT_EQ(data_parallel_size(c.layout), 4);
  EXPECT_EQ(c.layout.global_batch_size, 8);
  EXPECT_EQ(num_microbatches(c.layout), 1);
  const RankGrid grid = rank_grid(c.layout);
  EXPECT_EQ(grid.sizes(), (GridSizes{.tensor = 2, .data = 4}));
  EXPECT_EQ(grid.order(), "tp-cp-ep-dp-pp");

  const TrainConfig accumulates = resolved(
      "--world-size 8 --tensor-model-parallel-size 4 --global-batch-size 24 "
      "--use-tp-pp-dp-mapping");
  EXPECT_EQ(num_microbatches(accumulates.layout), 6);
  EXPECT_EQ(rank_grid(accumulates.layout).order(), "tp-cp-ep-pp-dp");
}

TEST(LayoutConfig, SharesTheCoresOutAmongTheRanks) {
  const std::int64_t cores = usable_cores().count;
  const auto threads = [](std::int64_t world, std::int64_t given) {
    return resolved(fmt::format("--world-size {} --global-batch-size 0 --threads-per-rank {}",
                                world, given))
        .layout.threads_per_rank;
  };
  EXPECT_EQ(threads(1, 0), std::max<std::int64_t>(1, cores));
  EXPECT_EQ(threads(2, 0), std::max<std::int64_t>(1, cores / 2));
  EXPECT_EQ(threads(4096, 0), 1);
  EXPECT_EQ(threads(2, 5), 5);
}

TEST(LayoutConfig, SaysWhereTheThreadsComeFrom) {
  const auto reason = [](std::int64_t world, std::int64_t given) {
    return resolved(fmt::format("--world-size {} --global-batch-size 0 --threads-per-rank {}",
                                world, given))
        .layout.threads_reason;
  };
  const std::string cores = usable_cores().reason;
  EXPECT_EQ(reason(1, 0), cores);
  EXPECT_EQ(reason(2, 0), cores + ", shared by 2 ranks");
  EXPECT_EQ(reason(1, 1), "");
  EXPECT_EQ(reason(2, 1000), "as given; usable: " + cores);

  TrainConfig twice = resolved("--world-size 1000 --global-batch-size 0");
  resolve(twice, true);
  EXPECT_EQ(twice.layout.threads_reason, cores + ", shared by 1000 ranks");
}

TEST(LayoutConfig, OmpNumThreadsCountsWhereNoFlagSaysHowMany) {
  const auto threads = [](const std::string& flags) {
    const LayoutConfig layout = resolved("--world-size 2 --global-batch-size 0 " + flags).layout;
    return fmt::format("{} {}", layout.threads_per_rank, layout.threads_reason);
  };
  ::setenv("OMP_NUM_THREADS", "3", 1);
  const std::string by_variable = threads(""), by_flag = threads("--threads-per-rank 1000");
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(by_variable, "3 by OMP_NUM_THREADS");
  EXPECT_EQ(by_flag, "1000 as given; usable: " + usable_cores().reason);
}

TEST(LayoutConfig, RefusesWorldsThatDoNotDivide) {
  expect_refused("--world-size 6 --tensor-model-parallel-size 4",
                 {"6 ranks", "--nproc", "--world-size", "--tensor-model-parallel-size 4"});
  expect_refused("--world-size 0", "--nproc");
  expect_refused("--world-size 2097152", "--nproc");
  expect_refused("--tensor-model-parallel-size 0", "--tensor-model-parallel-size");
  expect_refused("--world-size 6 --pipeline-model-parallel-size 4",
                 {"6 ranks", "--nproc", "--pipeline-model-parallel-size 4"});
  expect_refused("--world-size 3 --context-parallel-size 2",
                 {"3 ranks", "--nproc", "--context-parallel-size 2"});
  expect_refused("--world-size 3",  // 8 samples on 3 ranks of 2
                 {"--global-batch-size 8", "6", "--micro-batch-size 2", "3 data-parallel"});
  expect_refused("--distributed-timeout-minutes 0", "--distributed-timeout-minutes");
  expect_refused("--threads-per-rank -1", "--threads-per-rank");
  expect_refused("--threads-per-rank 2000", "--threads-per-rank");
  expect_refused("--pipeline-model-parallel-size 0", "--pipeline-model-parallel-size");
  expect_refused("--context-parallel-size 0", "--context-parallel-size");
}

TEST(LayoutConfig, TensorParallelismCutsEvenly) {
  const auto refused = [](const std::string& flags, const std::vector<std::string>& parts) {
    expect_refused(kTwoTensorRanks + flags, parts);
  };
  const std::string size = "--tensor-model-parallel-size 2";
  refused("--num-attention-heads 1 --hidden-size 64", {"--num-attention-heads 1", size});
  const auto grouped = [](std::int64_t groups) {
    return fmt::format(
        "--group-query-attention --num-attention-heads 6 --kv-channels 8 --num-query-groups {}",
        groups);
  };
  refused(grouped(3), {"--num-query-groups 3", size});
  for (const std::int64_t groups : {1, 2, 6}) {
    resolved(kTwoTensorRanks + grouped(groups));
  }
  refused("--ffn-hidden-size 129", {"--ffn-hidden-size 129", size});
  refused("--seq-length 31 --sequence-parallel", {"--seq-length 31", size, "--sequence-parallel"});
  resolved(kTwoTensorRanks + "--seq-length 31");
}

TEST(LayoutConfig, SequenceParallelismNeedsTensorParallelism) {
  const std::string sequence = "--sequence-parallel";
  EXPECT_FALSE(resolved(sequence).layout.sequence_parallel);
  EXPECT_TRUE(resolved(kTwoTensorRanks + sequence).layout.sequence_parallel);
}

TEST(LayoutConfig, OverlapsParameterGatheringOnlyWithItsNeeds) {
  expect_refused("--overlap-param-gather",
                 {"--overlap-param-gather", "--use-distributed-optimizer"});
  expect_refused("--overlap-param-gather --use-distributed-optimizer",
                 {"--overlap-param-gather", "--overlap-grad-reduce"});
  resolved("--overlap-param-gather --use-distributed-optimizer --overlap-grad-reduce");
  expect_refused("--ddp-bucket-size -1", "--ddp-bucket-size");
}

TEST(LayoutConfig, RecomputesWhatWasAskedFor) {
  const TrainConfig selective = resolved("--recompute-granularity selective");
  EXPECT_EQ(selective.layout.recompute_granularity, "selective");
  EXPECT_EQ(selective.layout.recompute_num_layers, 0);
  EXPECT_TRUE(gpt_config(selective, 100).transformer.recompute_core_attention);
  TrainConfig full = resolved("--recompute-granularity full --recompute-method uniform");
  EXPECT_EQ(full.layout.recompute_num_layers, 1);
  EXPECT_FALSE(gpt_config(full, 100).transformer.recompute_core_attention);
  EXPECT_EQ(gpt_config(full, 100).recompute.method, RecomputePlan::Method::kUniform);
  EXPECT_EQ(gpt_config(full, 100).recompute.num_layers, 1);
  EXPECT_EQ(gpt_config(selective, 100).recompute.method, RecomputePlan::Method::kNone);
  resolve(full, true);
  // The last group has one layer.
  const TrainConfig uneven = resolved(
      "--num-layers 3 --recompute-granularity full --recompute-method uniform "
      "--recompute-num-layers 2");
  EXPECT_EQ(gpt_config(uneven, 100).recompute.num_layers, 2);
}

TEST(LayoutConfig, RefusesContradictoryRecomputation) {
  const auto refused = [](const std::string& granularity, const std::string& method,
                          std::int64_t layers, const std::vector<std::string>& parts) {
    expect_refused(
        fmt::format("--recompute-granularity {} --recompute-method {} --recompute-num-layers {}",
                    granularity, method, layers),
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
  const std::string full =
      kTwoTensorRanks +
      " --recompute-granularity full --recompute-method block --distribute-saved-activations";
  const GptConfig model = gpt_config(resolved(full), 100);
  EXPECT_EQ(model.recompute.method, RecomputePlan::Method::kBlock);
  EXPECT_EQ(model.recompute.input_shards, 2);
  const std::string flag = "--distribute-saved-activations";
  expect_refused(kTwoTensorRanks + "--distribute-saved-activations",
                 {flag, "--recompute-granularity full"});
  expect_refused(full + " --tensor-model-parallel-size 1", {flag, "--tensor-model-parallel-size"});
  expect_refused(full + " --sequence-parallel", {flag, "--sequence-parallel"});
  expect_refused(full + " --micro-batch-size 1 --seq-length 31 --hidden-size 63 --kv-channels 16",
                 {flag, "--micro-batch-size 1", "--seq-length 31", "--hidden-size 63",
                  "--tensor-model-parallel-size 2"});
}

}  // namespace
}  // namespace phalanx
