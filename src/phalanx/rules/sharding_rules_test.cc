// The flags of what data-parallel ranks share, and what becomes of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainConfig parsed(const std::string& flags) {
  return config_tests::parsed(with_flags({}, "--world-size 4"),
                              "--num-layers 4 --hidden-size 32 --num-attention-heads 4 "
                              "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 " +
                                  flags,
                              /*plans=*/true);
}

std::string answer_to(const std::string& flags) {
  return error_of([&] { parsed(flags); });
}

TEST(ShardingFlags, SayOneStageInManyWords) {
  const auto stage = [](const std::string& arguments) {
    const LayoutConfig layout = parsed(arguments).layout;
    EXPECT_EQ(layout.use_distributed_optimizer, layout.zero_stage > 0) << arguments;
    return layout.zero_stage;
  };
  EXPECT_EQ(stage(""), 0);
  EXPECT_EQ(stage("--zero-stage 0"), 0);
  EXPECT_EQ(stage("--zero-stage 3"), 3);
  EXPECT_EQ(stage("--use-distributed-optimizer"), 1);
  EXPECT_EQ(stage("--use-distributed-optimizer --zero-stage 0"), 1);
  EXPECT_EQ(stage("--use-distributed-optimizer --zero-stage 2"), 2);
  EXPECT_EQ(stage("--data-parallel-sharding-strategy no_shard"), 0);
  EXPECT_EQ(stage("--data-parallel-sharding-strategy optim"), 1);
  EXPECT_EQ(stage("--data-parallel-sharding-strategy optim_grads"), 2);
  EXPECT_EQ(stage("--data-parallel-sharding-strategy optim_grads_params"), 3);
  EXPECT_EQ(stage("--use-megatron-fsdp"), 3);
  EXPECT_EQ(stage("--use-custom-fsdp"), 3);
  EXPECT_EQ(stage("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"), 2);
  EXPECT_EQ(stage("--use-megatron-fsdp --use-distributed-optimizer"), 3);
  EXPECT_EQ(stage("--use-torch-fsdp2"), 3);
  EXPECT_TRUE(parsed("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward")
                  .layout.no_zero_reshard_after_forward);
}

TEST(ShardingFlags, AreOneStageOrAnError) {
  EXPECT_THAT(answer_to("--zero-stage 4"), HasSubstr("--zero-stage"));
  EXPECT_THAT(answer_to("--zero-stage -1"), HasSubstr("--zero-stage"));
  EXPECT_THAT(answer_to("--zero-stage 2 --data-parallel-sharding-strategy optim"),
              AllOf(HasSubstr("--zero-stage"), HasSubstr("--data-parallel-sharding-strategy")));
  EXPECT_THAT(answer_to("--zero-stage 2 --use-megatron-fsdp"),
              AllOf(HasSubstr("--zero-stage"), HasSubstr("--use-megatron-fsdp")));
  EXPECT_THAT(answer_to("--data-parallel-sharding-strategy all"),
              HasSubstr("--data-parallel-sharding-strategy"));
}

TEST(ShardingFlags, OfPipelinesDoNotSendWithEveryMicrobatch) {
  const std::string pipeline = "--pipeline-model-parallel-size 2 --global-batch-size 8 ";
  EXPECT_THAT(answer_to(pipeline + "--zero-stage 3"),
              AllOf(HasSubstr("--zero-stage 3"), HasSubstr("--pipeline-model-parallel-size 2")));
  EXPECT_THAT(answer_to(pipeline + "--zero-stage 3 --zero-accumulate-unsharded"),
              HasSubstr("--zero-stage 3"));
  EXPECT_THAT(answer_to(pipeline + "--zero-stage 2"),
              AllOf(HasSubstr("--zero-stage 2"), HasSubstr("--zero-accumulate-unsharded")));
  EXPECT_EQ(answer_to(pipeline + "--zero-stage 2 --zero-accumulate-unsharded"), "no error");
  EXPECT_EQ(answer_to(pipeline + "--zero-stage 1 --num-distributed-optimizer-instances 2"),
            "no error");
}

TEST(ShardingFlags, OfCopiesDivideTheRanks) {
  const std::string copies = "--num-distributed-optimizer-instances ";
  EXPECT_THAT(answer_to("--zero-stage 3 " + copies + "3"),
              AllOf(HasSubstr(copies + "3"), HasSubstr("the 4 data-parallel ranks")));
  EXPECT_THAT(answer_to("--zero-stage 3 --tensor-model-parallel-size 2 " + copies + "4"),
              HasSubstr("the 2 data-parallel ranks"));
  for (const char* number : {"1", "2", "4"}) {
    EXPECT_EQ(answer_to("--zero-stage 3 " + copies + number), "no error");
  }
}

// What would have no effect is an error, not a silence.
TEST(ShardingFlags, AreNotIdle) {
  for (const char* flag : {"--no-zero-reshard-after-forward", "--zero-prefetch-depth 2",
                           "--zero-persistence-threshold 0"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    EXPECT_EQ(answer_to(std::string("--zero-stage 3 ") + flag), "no error");
    for (const char* stage : {"", "--zero-stage 1 ", "--zero-stage 2 "}) {
      EXPECT_THAT(answer_to(std::string(stage) + flag),
                  AllOf(HasSubstr(name), HasSubstr("needs --zero-stage 3")));
    }
  }
  EXPECT_EQ(answer_to("--zero-stage 2 --zero-accumulate-unsharded"), "no error");
  EXPECT_THAT(answer_to("--use-distributed-optimizer --zero-accumulate-unsharded"),
              AllOf(HasSubstr("--zero-accumulate-unsharded"), HasSubstr("--zero-stage 2")));
  EXPECT_THAT(answer_to("--num-distributed-optimizer-instances 2"),
              HasSubstr("--use-distributed-optimizer"));
}

// A run that only reads weights has them whole.
TEST(ShardingFlags, AreNotThoseOfInference) {
  TrainConfig c =
      for_inference(parsed("--zero-stage 3 --num-distributed-optimizer-instances 2 "
                           "--no-zero-reshard-after-forward "
                           "--zero-prefetch-depth 3 --zero-persistence-threshold 5 "
                           "--zero-accumulate-unsharded"));
  resolve(c, false);
  EXPECT_EQ(c.layout.zero_stage, 0);
}

}  // namespace
}  // namespace phalanx
