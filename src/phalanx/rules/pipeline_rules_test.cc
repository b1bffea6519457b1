// Which pipelines can be asked for: what is refused names every flag that has to do with it.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using config_tests::expect_refused;
using config_tests::refusal_of;

// Four stages of two layers, eight microbatches.
TrainConfig valid() {
  return with_flags(config_tests::valid(),
                    "--world-size 4 --pipeline-model-parallel-size 4 --num-layers 8 "
                    "--hidden-size 32 --max-position-embeddings 16 --seq-length 16 "
                    "--micro-batch-size 1");
}

TrainConfig asynchronous(const std::string& schedule) {
  return with_flags(valid(),
                    "--clip-grad 0 --untie-embeddings-and-output-weights "
                    "--pipeline-schedule " +
                        schedule);
}

TrainConfig resolved(const std::string& flags = "") {
  return config_tests::resolved(valid(), flags);
}

TEST(PipelineConfig, TheDefaultScheduleFollowsFromTheChunks) {
  EXPECT_EQ(resolved().layout.pipeline_schedule, "1f1b");
  EXPECT_EQ(resolved("--num-virtual-stages-per-pipeline-rank 1").layout.pipeline_schedule, "1f1b");
  EXPECT_EQ(resolved("--num-virtual-stages-per-pipeline-rank 2").layout.pipeline_schedule,
            "interleaved");
  EXPECT_EQ(resolved("--world-size 1 --pipeline-model-parallel-size 1").layout.pipeline_schedule,
            "1f1b");
}

// Megatron's flag says the same in layers.
TEST(PipelineConfig, VirtualStagesInLayersOrInNumber) {
  const TrainConfig c = resolved("--num-layers-per-virtual-pipeline-stage 1");
  EXPECT_EQ(c.layout.num_virtual_stages_per_pipeline_rank, 2);
  EXPECT_EQ(c.layout.pipeline_schedule, "interleaved");
  EXPECT_EQ(schedule_request(c.layout, 8).chunks, 2);
  expect_refused(valid(), "--num-layers-per-virtual-pipeline-stage 3",
                 {"--num-layers 8", "--pipeline-model-parallel-size 4",
                  "--num-layers-per-virtual-pipeline-stage 3"});
  const auto both = [](std::int64_t stages) {
    return fmt::format(
        "--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank {}",
        stages);
  };
  EXPECT_EQ(refusal_of(valid(), both(2)), "no error");
  expect_refused(
      valid(), both(4),
      {"--num-layers-per-virtual-pipeline-stage 1", "--num-virtual-stages-per-pipeline-rank", "4"});
  for (const std::string flag :
       {"--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank",
        "--microbatch-group-size-per-virtual-pipeline-stage"}) {
    expect_refused(valid(), flag + " -1", {flag});
  }
}

TEST(PipelineConfig, EveryStageHasALayer) {
  expect_refused(valid(), "--num-layers 3", {"--num-layers 3", "4 stages"});
  expect_refused(valid(), "--num-layers 7 --pipeline-schedule zb-v",
                 {"--num-layers 7", "8 stages", "4 ranks x 2"});
  EXPECT_EQ(refusal_of(valid(), "--num-layers 5"), "no error");
}

TEST(PipelineConfig, LayersOnStages) {
  using Layers = std::vector<std::int64_t>;
  const auto layers = [](const std::string& flags) {
    const TrainConfig c = resolved(flags);
    return stage_layers(
        c, schedule_kind(c.layout.pipeline_schedule).placement(schedule_request(c.layout, 8)));
  };
  EXPECT_EQ(layers(""), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers("--num-layers 6"), (Layers{1, 2, 1, 2}));
  // Megatron's flags are of ranks, whose virtual stages share what they have.
  EXPECT_EQ(layers("--decoder-first-pipeline-num-layers 5"), (Layers{5, 1, 1, 1}));
  EXPECT_EQ(layers("--decoder-last-pipeline-num-layers 2"), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers("--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3"),
            (Layers{1, 2, 2, 3}));
  EXPECT_EQ(layers("--num-layers 16 --num-virtual-stages-per-pipeline-rank 2 "
                   "--decoder-first-pipeline-num-layers 4"),
            (Layers{2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(layers("--num-layers 18 --pipeline-schedule zb-v --decoder-first-pipeline-num-layers 2 "
                   "--decoder-last-pipeline-num-layers 4"),
            (Layers{1, 3, 3, 2, 2, 3, 3, 1}));
}

TEST(PipelineConfig, LayersThatCannotBeShared) {
  const std::vector<std::string> flags = {"--num-layers 8", "--decoder-first-pipeline-num-layers",
                                          "--decoder-last-pipeline-num-layers"};
  for (const std::int64_t first : {3, 4, 8, 20}) {
    expect_refused(valid(), fmt::format("--decoder-first-pipeline-num-layers {}", first), flags);
  }
  expect_refused(
      valid(), "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 4", flags);
  // It has no halves.
  expect_refused(valid(), "--pipeline-schedule zb-v --decoder-first-pipeline-num-layers 5", flags);
  expect_refused(valid(), "--decoder-last-pipeline-num-layers -1",
                 {"--decoder-last-pipeline-num-layers"});
}

TEST(PipelineConfig, SchedulesByName) {
  expect_refused(valid(), "--pipeline-schedule zb-h3", {"zb-h3", "zb-h1", "zb-h2", "interleaved"});
  expect_refused(
      valid(), "--pipeline-schedule 1f1b --microbatch-group-size-per-virtual-pipeline-stage 4",
      {"--microbatch-group-size-per-virtual-pipeline-stage", "--pipeline-schedule 1f1b"});
  expect_refused(valid(), "--pipeline-schedule zb-v --num-virtual-stages-per-pipeline-rank 4",
                 {"2 chunks on every rank", "not 4"});
  EXPECT_EQ(refusal_of(valid(),
                       "--pipeline-schedule zb-interleaved "
                       "--microbatch-group-size-per-virtual-pipeline-stage 4"),
            "no error");
}

TEST(PipelineConfig, FlagsOfPipelinesNeedOne) {
  const TrainConfig one = with_flags(valid(), "--world-size 1 --pipeline-model-parallel-size 1");
  const std::string needed = "--pipeline-model-parallel-size above 1";
  expect_refused(one, "--pipeline-schedule zb-v", {"--pipeline-schedule", needed});
  expect_refused(one, "--num-layers-per-virtual-pipeline-stage 2",
                 {"--num-layers-per-virtual-pipeline-stage", needed});
  expect_refused(one, "--num-virtual-stages-per-pipeline-rank 2",
                 {"--num-virtual-stages-per-pipeline-rank", needed});
  expect_refused(one, "--microbatch-group-size-per-virtual-pipeline-stage 2",
                 {"--microbatch-group-size-per-virtual-pipeline-stage", needed});
  expect_refused(one, "--decoder-first-pipeline-num-layers 2",
                 {"--decoder-first-pipeline-num-layers", needed});
  // What changes nothing may stand.
  EXPECT_EQ(refusal_of(one, "--pipeline-schedule 1f1b --num-virtual-stages-per-pipeline-rank 1"),
            "no error");
}

TEST(PipelineConfig, WhatStaleWeightsExclude) {
  for (const std::string schedule : {"pipedream", "pipedream-2bw"}) {
    const TrainConfig from = asynchronous(schedule);
    const std::string name = "--pipeline-schedule " + schedule;
    EXPECT_EQ(refusal_of(from), "no error") << schedule;
    EXPECT_EQ(refusal_of(from, "--bf16"), "no error") << schedule;
    expect_refused(from, "--clip-grad 1", {name, "--clip-grad"});
    expect_refused(from, "--fp16", {name, "--fp16"});
    // One stage would skip its update alone, whatever the scale.
    for (const double scale : {1.0, 1024.0}) {
      expect_refused(from, fmt::format("--loss-scale {}", scale), {name, "--loss-scale"});
    }
    expect_refused(from, "--use-distributed-optimizer", {name, "--use-distributed-optimizer"});
    expect_refused(from, "--log-num-zeros-in-grad", {name, "--log-num-zeros-in-grad"});
    expect_refused(from, "--untie-embeddings-and-output-weights false",
                   {name, "--untie-embeddings-and-output-weights"});
    expect_refused(from, "--pipeline-drain-interval 0", {"--pipeline-drain-interval"});
  }
  EXPECT_TRUE(is_asynchronous(asynchronous("pipedream").layout));
  EXPECT_TRUE(is_asynchronous(asynchronous("pipedream-2bw").layout));
  EXPECT_FALSE(is_asynchronous(resolved().layout));
}

TEST(PipelineConfig, TracesAreJson) {
  expect_refused(valid(), "--trace timeline.svg", {"--trace timeline.svg", ".json"});
  EXPECT_EQ(refusal_of(valid(), "--trace timeline.json"), "no error");
}

}  // namespace
}  // namespace phalanx
