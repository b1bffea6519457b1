#include "phalanx/cli/train_flags.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

TrainConfig parsed(const std::vector<std::string>& arguments) {
  TrainConfig config;
  Flags flags("test", "");
  add_train_flags(flags, config);
  flags.parse(arguments);
  return config;
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parsed(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TrainFlags, EverySwitchIsBoundToItsField) {
  const std::vector<std::pair<const char*, bool TrainConfig::*>> switches = {
      {"--sequence-parallel", &TrainConfig::sequence_parallel},
      {"--use-tp-pp-dp-mapping", &TrainConfig::use_tp_pp_dp_mapping},
      {"--no-async-tensor-model-parallel-allreduce",
       &TrainConfig::no_async_tensor_model_parallel_allreduce},
      {"--use-distributed-optimizer", &TrainConfig::use_distributed_optimizer},
      {"--overlap-grad-reduce", &TrainConfig::overlap_grad_reduce},
      {"--overlap-param-gather", &TrainConfig::overlap_param_gather},
      {"--accumulate-allreduce-grads-in-fp32", &TrainConfig::accumulate_allreduce_grads_in_fp32},
      {"--log-num-zeros-in-grad", &TrainConfig::log_num_zeros_in_grad},
      {"--recompute-activations", &TrainConfig::recompute_activations},
      {"--distribute-saved-activations", &TrainConfig::distribute_saved_activations},
      {"--bf16", &TrainConfig::bf16},
      {"--fp16", &TrainConfig::fp16},
      {"--fp32-residual-connection", &TrainConfig::fp32_residual_connection},
      {"--calculate-per-token-loss", &TrainConfig::calculate_per_token_loss}};
  for (const auto& [name, field] : switches) {
    const TrainConfig config = parsed({name});
    for (const auto& [other, other_field] : switches) {
      EXPECT_EQ(config.*other_field, field == other_field) << name << ", " << other;
    }
  }
}

TEST(TrainFlags, EveryValueIsBoundToItsField) {
  const std::vector<std::pair<const char*, std::int64_t TrainConfig::*>> integers = {
      {"--tensor-model-parallel-size", &TrainConfig::tensor_model_parallel_size},
      {"--pipeline-model-parallel-size", &TrainConfig::pipeline_model_parallel_size},
      {"--context-parallel-size", &TrainConfig::context_parallel_size},
      {"--num-layers-per-virtual-pipeline-stage",
       &TrainConfig::num_layers_per_virtual_pipeline_stage},
      {"--num-virtual-stages-per-pipeline-rank",
       &TrainConfig::num_virtual_stages_per_pipeline_rank},
      {"--microbatch-group-size-per-virtual-pipeline-stage",
       &TrainConfig::microbatch_group_size_per_virtual_pipeline_stage},
      {"--decoder-first-pipeline-num-layers", &TrainConfig::decoder_first_pipeline_num_layers},
      {"--decoder-last-pipeline-num-layers", &TrainConfig::decoder_last_pipeline_num_layers},
      {"--pipeline-drain-interval", &TrainConfig::pipeline_drain_interval},
      {"--ddp-bucket-size", &TrainConfig::ddp_bucket_size},
      {"--recompute-num-layers", &TrainConfig::recompute_num_layers},
      {"--loss-scale-window", &TrainConfig::loss_scale_window},
      {"--hysteresis", &TrainConfig::hysteresis}};
  for (const auto& [name, field] : integers) EXPECT_EQ(parsed({name, "77"}).*field, 77) << name;
  const std::vector<std::pair<const char*, double TrainConfig::*>> reals = {
      {"--distributed-timeout-minutes", &TrainConfig::distributed_timeout_minutes},
      {"--initial-loss-scale", &TrainConfig::initial_loss_scale},
      {"--min-loss-scale", &TrainConfig::min_loss_scale}};
  for (const auto& [name, field] : reals) EXPECT_EQ(parsed({name, "0.5"}).*field, 0.5) << name;
  EXPECT_EQ(parsed({"--loss-scale", "128"}).loss_scale, 128.0);
  EXPECT_FALSE(parsed({}).loss_scale);
  EXPECT_EQ(parsed({"--recompute-granularity", "full"}).recompute_granularity, "full");
  EXPECT_EQ(parsed({"--recompute-method", "block"}).recompute_method, "block");
  EXPECT_EQ(parsed({"--pipeline-schedule", "zb-v"}).pipeline_schedule, "zb-v");
  EXPECT_EQ(parsed({"--trace", "steps.json"}).trace, "steps.json");
}

TEST(TrainFlags, WhatIsNotThereYetIsSaidSo) {
  EXPECT_NE(refusal({"--grad-reduce-in-bf16"}).find("not available"), std::string::npos);
  EXPECT_NE(refusal({"--num-distributed-optimizer-instances", "2"}).find("not available"),
            std::string::npos);
  EXPECT_NE(refusal({"--overlap-grad-reduces"}).find("did you mean --overlap-grad-reduce?"),
            std::string::npos);
  // Each command adds its own size of the world.
  EXPECT_NE(refusal({"--nproc", "2"}).find("unknown flag"), std::string::npos);
}

// What a checkpoint keeps makes the same configuration again.
TEST(TrainFlags, ValuesBecomeArgumentsAgain) {
  TrainConfig config, again;
  Flags flags("test", ""), others("test", "");
  add_train_flags(flags, config);
  add_train_flags(others, again);
  flags.parse({"--fp16", "--loss-scale", "64", "--recompute-method=uniform", "--hysteresis", "3",
               "--tensor-model-parallel-size", "2"});
  others.parse(others.arguments_from(flags.values()));
  EXPECT_EQ(flags.values(), others.values());
  EXPECT_TRUE(again.fp16);
  EXPECT_EQ(again.loss_scale, 64.0);
}

}  // namespace
}  // namespace phalanx
