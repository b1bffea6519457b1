// Which pipelines can be asked for: what is refused names every flag that has to do with it.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {
namespace {

// Four stages of two layers, eight microbatches.
TrainConfig valid() {
  TrainConfig c;
  c.layout.world_size = 4;
  c.layout.pipeline_model_parallel_size = 4;
  c.model.num_layers = 8;
  c.model.hidden_size = 32;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 16;
  c.data.seq_length = 16;
  c.layout.micro_batch_size = 1;
  c.layout.global_batch_size = 8;
  c.run.train_iters = 100;
  c.optimizer.lr = 1e-3;
  c.data.data_path = {"data"};
  return c;
}

TrainConfig asynchronous(const std::string& schedule) {
  TrainConfig c = valid();
  c.layout.pipeline_schedule = schedule;
  c.optimizer.clip_grad = 0.0;
  c.model.untie_embeddings_and_output_weights = true;
  return c;
}

using Change = std::function<void(TrainConfig&)>;

std::string refusal_of(TrainConfig c, const Change& change) {
  change(c);
  try {
    resolve(c, true);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_refused(const TrainConfig& from, const Change& change,
                    const std::vector<std::string>& parts) {
  const std::string text = refusal_of(from, change);
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TrainConfig resolved(const Change& change) {
  TrainConfig c = valid();
  change(c);
  resolve(c, true);
  return c;
}

TEST(PipelineConfig, TheDefaultScheduleFollowsFromTheChunks) {
  EXPECT_EQ(resolved([](TrainConfig&) {}).layout.pipeline_schedule, "1f1b");
  EXPECT_EQ(resolved([](TrainConfig& c) {
              c.layout.num_virtual_stages_per_pipeline_rank = 1;
            }).layout.pipeline_schedule,
            "1f1b");
  EXPECT_EQ(resolved([](TrainConfig& c) {
              c.layout.num_virtual_stages_per_pipeline_rank = 2;
            }).layout.pipeline_schedule,
            "interleaved");
  EXPECT_EQ(resolved([](TrainConfig& c) {
              c.layout.world_size = 1;
              c.layout.pipeline_model_parallel_size = 1;
            }).layout.pipeline_schedule,
            "1f1b");
}

// Megatron's flag says the same in layers.
TEST(PipelineConfig, VirtualStagesInLayersOrInNumber) {
  const TrainConfig c =
      resolved([](TrainConfig& t) { t.layout.num_layers_per_virtual_pipeline_stage = 1; });
  EXPECT_EQ(c.layout.num_virtual_stages_per_pipeline_rank, 2);
  EXPECT_EQ(c.layout.pipeline_schedule, "interleaved");
  EXPECT_EQ(schedule_request(c.layout, 8).chunks, 2);
  expect_refused(valid(),
                 [](TrainConfig& t) { t.layout.num_layers_per_virtual_pipeline_stage = 3; },
                 {"--num-layers 8", "--pipeline-model-parallel-size 4",
                  "--num-layers-per-virtual-pipeline-stage 3"});
  const auto both = [](std::int64_t stages) {
    return [stages](TrainConfig& t) {
      t.layout.num_layers_per_virtual_pipeline_stage = 1;
      t.layout.num_virtual_stages_per_pipeline_rank = stages;
    };
  };
  EXPECT_EQ(refusal_of(valid(), both(2)), "accepted");
  expect_refused(
      valid(), both(4),
      {"--num-layers-per-virtual-pipeline-stage 1", "--num-virtual-stages-per-pipeline-rank", "4"});
  for (const auto& [field, flag] :
       {std::pair{&LayoutConfig::num_layers_per_virtual_pipeline_stage,
                  "--num-layers-per-virtual-pipeline-stage"},
        {&LayoutConfig::num_virtual_stages_per_pipeline_rank,
         "--num-virtual-stages-per-pipeline-rank"},
        {&LayoutConfig::microbatch_group_size_per_virtual_pipeline_stage,
         "--microbatch-group-size-per-virtual-pipeline-stage"}}) {
    expect_refused(valid(), [negative = field](TrainConfig& t) { t.layout.*negative = -1; },
                   {flag});
  }
}

TEST(PipelineConfig, EveryStageHasALayer) {
  expect_refused(valid(), [](TrainConfig& c) { c.model.num_layers = 3; },
                 {"--num-layers 3", "4 stages"});
  expect_refused(valid(),
                 [](TrainConfig& c) {
                   c.model.num_layers = 7;
                   c.layout.pipeline_schedule = "zb-v";
                 },
                 {"--num-layers 7", "8 stages", "4 ranks x 2"});
  EXPECT_EQ(refusal_of(valid(), [](TrainConfig& c) { c.model.num_layers = 5; }), "accepted");
}

TEST(PipelineConfig, LayersOnStages) {
  using Layers = std::vector<std::int64_t>;
  const auto layers = [](const Change& change) {
    const TrainConfig c = resolved(change);
    return stage_layers(
        c, schedule_kind(c.layout.pipeline_schedule).placement(schedule_request(c.layout, 8)));
  };
  EXPECT_EQ(layers([](TrainConfig&) {}), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers([](TrainConfig& c) { c.model.num_layers = 6; }), (Layers{1, 2, 1, 2}));
  // Megatron's flags are of ranks, whose virtual stages share what they have.
  EXPECT_EQ(layers([](TrainConfig& c) { c.layout.decoder_first_pipeline_num_layers = 5; }),
            (Layers{5, 1, 1, 1}));
  EXPECT_EQ(layers([](TrainConfig& c) { c.layout.decoder_last_pipeline_num_layers = 2; }),
            (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers([](TrainConfig& c) {
              c.layout.decoder_first_pipeline_num_layers = 1;
              c.layout.decoder_last_pipeline_num_layers = 3;
            }),
            (Layers{1, 2, 2, 3}));
  EXPECT_EQ(layers([](TrainConfig& c) {
              c.model.num_layers = 16;
              c.layout.num_virtual_stages_per_pipeline_rank = 2;
              c.layout.decoder_first_pipeline_num_layers = 4;
            }),
            (Layers{2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(layers([](TrainConfig& c) {
              c.model.num_layers = 18;
              c.layout.pipeline_schedule = "zb-v";
              c.layout.decoder_first_pipeline_num_layers = 2;
              c.layout.decoder_last_pipeline_num_layers = 4;
            }),
            (Layers{1, 3, 3, 2, 2, 3, 3, 1}));
}

TEST(PipelineConfig, LayersThatCannotBeShared) {
  const std::vector<std::string> flags = {"--num-layers 8", "--decoder-first-pipeline-num-layers",
                                          "--decoder-last-pipeline-num-layers"};
  for (const std::int64_t first : {3, 4, 8, 20}) {
    expect_refused(
        valid(), [first](TrainConfig& c) { c.layout.decoder_first_pipeline_num_layers = first; },
        flags);
  }
  expect_refused(
      valid(),
      [](TrainConfig& c) {
        c.layout.decoder_first_pipeline_num_layers = 3;
        c.layout.decoder_last_pipeline_num_layers = 4;
      },
      flags);
  expect_refused(
      valid(),
      [](TrainConfig& c) {
        c.layout.pipeline_schedule = "zb-v";  // no halves
        c.layout.decoder_first_pipeline_num_layers = 5;
      },
      flags);
  expect_refused(valid(), [](TrainConfig& c) { c.layout.decoder_last_pipeline_num_layers = -1; },
                 {"--decoder-last-pipeline-num-layers"});
}

TEST(PipelineConfig, SchedulesByName) {
  expect_refused(valid(), [](TrainConfig& c) { c.layout.pipeline_schedule = "zb-h3"; },
                 {"zb-h3", "zb-h1", "zb-h2", "interleaved"});
  expect_refused(
      valid(),
      [](TrainConfig& c) {
        c.layout.pipeline_schedule = "1f1b";
        c.layout.microbatch_group_size_per_virtual_pipeline_stage = 4;
      },
      {"--microbatch-group-size-per-virtual-pipeline-stage", "--pipeline-schedule 1f1b"});
  expect_refused(valid(),
                 [](TrainConfig& c) {
                   c.layout.pipeline_schedule = "zb-v";
                   c.layout.num_virtual_stages_per_pipeline_rank = 4;
                 },
                 {"2 chunks on every rank", "not 4"});
  EXPECT_EQ(refusal_of(valid(),
                       [](TrainConfig& c) {
                         c.layout.pipeline_schedule = "zb-interleaved";
                         c.layout.microbatch_group_size_per_virtual_pipeline_stage = 4;
                       }),
            "accepted");
}

TEST(PipelineConfig, FlagsOfPipelinesNeedOne) {
  TrainConfig one = valid();
  one.layout.world_size = 1;
  one.layout.pipeline_model_parallel_size = 1;
  const std::string needed = "--pipeline-model-parallel-size above 1";
  expect_refused(one, [](TrainConfig& c) { c.layout.pipeline_schedule = "zb-v"; },
                 {"--pipeline-schedule", needed});
  expect_refused(one, [](TrainConfig& c) { c.layout.num_layers_per_virtual_pipeline_stage = 2; },
                 {"--num-layers-per-virtual-pipeline-stage", needed});
  expect_refused(one, [](TrainConfig& c) { c.layout.num_virtual_stages_per_pipeline_rank = 2; },
                 {"--num-virtual-stages-per-pipeline-rank", needed});
  expect_refused(
      one, [](TrainConfig& c) { c.layout.microbatch_group_size_per_virtual_pipeline_stage = 2; },
      {"--microbatch-group-size-per-virtual-pipeline-stage", needed});
  expect_refused(one, [](TrainConfig& c) { c.layout.decoder_first_pipeline_num_layers = 2; },
                 {"--decoder-first-pipeline-num-layers", needed});
  // What changes nothing may stand.
  EXPECT_EQ(refusal_of(one,
                       [](TrainConfig& c) {
                         c.layout.pipeline_schedule = "1f1b";
                         c.layout.num_virtual_stages_per_pipeline_rank = 1;
                       }),
            "accepted");
}

TEST(PipelineConfig, WhatStaleWeightsExclude) {
  for (const std::string schedule : {"pipedream", "pipedream-2bw"}) {
    const TrainConfig from = asynchronous(schedule);
    const std::string name = "--pipeline-schedule " + schedule;
    EXPECT_EQ(refusal_of(from, [](TrainConfig&) {}), "accepted") << schedule;
    EXPECT_EQ(refusal_of(from, [](TrainConfig& c) { c.model.bf16 = true; }), "accepted")
        << schedule;
    expect_refused(from, [](TrainConfig& c) { c.optimizer.clip_grad = 1.0; },
                   {name, "--clip-grad"});
    expect_refused(from, [](TrainConfig& c) { c.model.fp16 = true; }, {name, "--fp16"});
    // One stage would skip its update alone, whatever the scale.
    for (const double scale : {1.0, 1024.0}) {
      expect_refused(from, [&](TrainConfig& c) { c.optimizer.loss_scale = scale; },
                     {name, "--loss-scale"});
    }
    expect_refused(from, [](TrainConfig& c) { c.layout.use_distributed_optimizer = true; },
                   {name, "--use-distributed-optimizer"});
    expect_refused(from, [](TrainConfig& c) { c.optimizer.log_num_zeros_in_grad = true; },
                   {name, "--log-num-zeros-in-grad"});
    expect_refused(from,
                   [](TrainConfig& c) { c.model.untie_embeddings_and_output_weights = false; },
                   {name, "--untie-embeddings-and-output-weights"});
    expect_refused(from, [](TrainConfig& c) { c.layout.pipeline_drain_interval = 0; },
                   {"--pipeline-drain-interval"});
  }
  EXPECT_TRUE(is_asynchronous(asynchronous("pipedream").layout));
  EXPECT_TRUE(is_asynchronous(asynchronous("pipedream-2bw").layout));
  EXPECT_FALSE(is_asynchronous(resolved([](TrainConfig&) {}).layout));
}

TEST(PipelineConfig, TracesAreJson) {
  expect_refused(valid(), [](TrainConfig& c) { c.run.trace = "timeline.svg"; },
                 {"--trace timeline.svg", ".json"});
  EXPECT_EQ(refusal_of(valid(), [](TrainConfig& c) { c.run.trace = "timeline.json"; }), "accepted");
}

}  // namespace
}  // namespace phalanx
