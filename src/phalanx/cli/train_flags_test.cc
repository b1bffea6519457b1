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
  EXPECT_TRUE(again.model.fp16);
  EXPECT_EQ(again.optimizer.loss_scale, 64.0);
}

}  // namespace
}  // namespace phalanx
