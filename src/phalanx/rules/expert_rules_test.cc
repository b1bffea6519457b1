// What the flags of experts come to, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "phalanx/rules/test_support.h"
#include "phalanx/settings/expert_views.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainConfig parsed(const std::string& flags) {
  return config_tests::parsed({},
                              "--num-layers 4 --hidden-size 96 --num-attention-heads 4 "
                              "--max-position-embeddings 32 --seq-length 32 --micro-batch-size 1 "
                              "--train-iters 10 --lr 0.001 --data-path data " +
                                  flags,
                              /*plans=*/false, {});
}

nn::ExpertSettings experts_of(const std::string& flags) {
  return transformer_config(parsed("--num-experts 8 " + flags)).experts;
}

std::string refusal_of(const std::string& flags) {
  return error_of([&] { parsed(flags); });
}

TEST(ConfigExperts, ADenseModelHasNone) {
  EXPECT_EQ(transformer_config(parsed("")).experts.experts, 0);
  EXPECT_THAT(refusal_of("--moe-aux-loss-coeff 0.01"), HasSubstr("needs --num-experts"));
  EXPECT_THAT(refusal_of("--moe-router-topk 4"), HasSubstr("needs --num-experts"));
  EXPECT_EQ(refusal_of("--moe-aux-loss-coeff 0.0 --expert-model-parallel-size 1"), "no error");
}

TEST(ConfigExperts, HaveMegatronsDefaults) {
  const nn::ExpertSettings experts = experts_of("");
  EXPECT_EQ(experts.experts, 8);
  EXPECT_EQ(experts.chosen, 2);
  EXPECT_EQ(experts.ffn_hidden, 384);
  EXPECT_THAT(experts.layers, ElementsAre(true, true, true, true));
  EXPECT_EQ(experts.rule.score, ops::RouterScore::kSoftmax);
  EXPECT_TRUE(experts.losses.empty());
  EXPECT_EQ(experts.capacity_factor, 0.0);
}

TEST(ConfigExperts, TakeTheirFlags) {
  const nn::ExpertSettings experts = experts_of(
      "--moe-layer-freq 2 --moe-ffn-hidden-size 48 --moe-router-topk 4 "
      "--moe-router-score-function sigmoid --moe-router-num-groups 4 --moe-router-group-topk 2 "
      "--moe-router-topk-scaling-factor 2.5 --moe-router-load-balancing-type seq_aux_loss "
      "--moe-aux-loss-coeff 1e-3 --moe-z-loss-coeff 1e-4 --moe-expert-capacity-factor 1.5 "
      "--moe-token-drop-policy position --moe-shared-expert-intermediate-size 96 "
      "--moe-shared-expert-gate --moe-grouped-gemm --moe-token-dispatcher-type flex "
      "--moe-planned-imbalance 1.5");
  EXPECT_EQ(experts.dispatch, nn::TokenDispatch::kAllToAll);
  EXPECT_EQ(experts.planned_imbalance, 1.5);
  EXPECT_FALSE(experts.pad_to_capacity);
  EXPECT_TRUE(experts_of("--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity")
                  .pad_to_capacity);
  EXPECT_THAT(experts.layers, ElementsAre(true, false, true, false));
  EXPECT_EQ(experts.ffn_hidden, 48);
  EXPECT_EQ(experts.rule.score, ops::RouterScore::kSigmoid);
  EXPECT_EQ(experts.rule.groups, 4);
  EXPECT_EQ(experts.rule.group_topk, 2);
  EXPECT_EQ(experts.rule.group_best, 2);
  EXPECT_EQ(experts.rule.scaling, 2.5);
  ASSERT_EQ(experts.losses.size(), 2U);
  EXPECT_EQ(experts.losses[0].kind, nn::RouterLoss::Kind::kSequenceBalance);
  EXPECT_EQ(experts.losses[0].coefficient, 1e-3);
  EXPECT_EQ(experts.losses[1].kind, nn::RouterLoss::Kind::kLogits);
  EXPECT_EQ(experts.capacity_factor, 1.5);
  EXPECT_EQ(experts.drop_policy, ops::DropPolicy::kPosition);
  EXPECT_EQ(experts.shared_ffn_hidden, 96);
  EXPECT_TRUE(experts.shared_gate);
  EXPECT_THAT(experts_of("--moe-layer-freq ([0]*1+[1]*3)").layers,
              ElementsAre(false, true, true, true));
  const nn::ExpertSettings biased = experts_of(
      "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-router-bias-update-rate 0.01 --moe-router-load-balancing-type global_aux_loss "
      "--moe-aux-loss-coeff 0.1");
  EXPECT_TRUE(biased.bias);
  EXPECT_EQ(biased.bias_rate, 0.01);
  EXPECT_TRUE(biased.has_loss(nn::RouterLoss::Kind::kGlobalBalance));
  EXPECT_EQ(experts_of("--moe-router-force-load-balancing").choice, nn::ExpertChoice::kForced);
  const std::string sinkhorn = "--moe-router-load-balancing-type sinkhorn ";
  EXPECT_EQ(experts_of(sinkhorn).choice, nn::ExpertChoice::kSinkhorn);
  EXPECT_EQ(experts_of(sinkhorn).rule.score, ops::RouterScore::kSoftmaxFirst);
  EXPECT_EQ(experts_of(sinkhorn + "--moe-router-topk 1").rule.score, ops::RouterScore::kSigmoid);
  EXPECT_EQ(experts_of("--moe-router-pre-softmax").rule.score, ops::RouterScore::kSoftmaxFirst);
}

TEST(ConfigExperts, HaveRowsOnARank) {
  TrainConfig c =
      parsed("--num-experts 8 --moe-token-dispatcher-type alltoall --moe-planned-imbalance 1.5");
  EXPECT_EQ(expert_rows(c).round, 64) << "of 32 tokens";
  c.layout.expert_model_parallel_size = 4;
  EXPECT_EQ(expert_rows(c).balanced, 64);
  EXPECT_EQ(expert_rows(c).round, 96);
  EXPECT_EQ(expert_rows(c).most, 256);
}

TEST(ConfigExperts, AreRefused) {
  for (const auto& [flags, reason] : std::vector<std::pair<std::string, std::string>>{
           {"--moe-router-topk 9", "a token has at most 8"},
           {"--moe-router-topk 1", "add --moe-router-pre-softmax"},
           {"--moe-router-pre-softmax --moe-router-score-function sigmoid", "exclude each other"},
           {"--moe-router-num-groups 4", "give both"},
           {"--moe-router-num-groups 3 --moe-router-group-topk 1", "is not a multiple of"},
           {"--moe-router-num-groups 4 --moe-router-group-topk 4", "give a token 4 to 8 experts"},
           {"--moe-router-num-groups 4 --moe-router-group-topk 2 --moe-router-group-score 3",
            "a group has 2 experts"},
           {"--moe-layer-freq [0]*4", "no layer has experts"},
           {"--moe-layer-freq [1]*3", "a list of 3 elements"},
           {"--moe-layer-freq x", "--moe-layer-freq x: give a number N"},
           {"--moe-router-load-balancing-type quantile_balancing", "is not available"},
           {"--moe-router-load-balancing-type sinkhorn --moe-aux-loss-coeff 0.1", "has no loss"},
           {"--moe-router-load-balancing-type sinkhorn --moe-expert-capacity-factor 1",
            "sinkhorn and --moe-expert-capacity-factor exclude each other"},
           {"--moe-router-load-balancing-type sinkhorn --moe-router-score-function sigmoid",
            "sinkhorn and --moe-router-score-function exclude each other"},
           {"--moe-router-load-balancing-type sinkhorn none --moe-aux-loss-coeff 0 0",
            "sinkhorn and another type beside it"},
           {"--moe-router-load-balancing-type aux", "there is no such type"},
           {"--moe-router-load-balancing-type aux_loss seq_aux_loss", "give one for each"},
           {"--moe-aux-loss-coeff much", "--moe-aux-loss-coeff much"},
           {"--moe-shared-expert-gate", "needs --moe-shared-expert-intermediate-size"},
           {"--expert-model-parallel-size 2", "--world-size 1 is not a multiple"},
           {"--expert-tensor-parallel-size 2", "--world-size 1 is not a multiple"},
           {"--expert-model-parallel-size 3",
            "--num-experts 8 is not a multiple of --expert-model-parallel-size 3"},
           {"--expert-tensor-parallel-size 2 --moe-ffn-hidden-size 33",
            "--moe-ffn-hidden-size 33 is not a multiple of --expert-tensor-parallel-size 2"},
           {"--moe-router-enable-expert-bias", "give one of these, or --moe-aux-loss-coeff"},
           {"--moe-router-bias-update-rate 0.01", "needs --moe-router-enable-expert-bias"},
           {"--moe-use-upcycling", "needs --load or --pretrained-checkpoint"},
           {"--moe-use-upcycling --load dense", "needs --save"},
           {"--moe-use-upcycling --moe-upcycling-granularity 3",
            "--num-experts 8 is not a multiple of --moe-upcycling-granularity 3"},
           {"--moe-use-upcycling --moe-upcycling-granularity 4",
            "--moe-router-topk 2 is not a multiple of --moe-upcycling-granularity 4"},
           {"--moe-upcycling-granularity 2", "needs --moe-use-upcycling"},
           {"--moe-pad-expert-input-to-capacity", "needs --moe-expert-capacity-factor"},
           {"--moe-pad-expert-input-to-capacity --moe-expert-capacity-factor -1",
            "needs a --moe-expert-capacity-factor above 0"},
           {"--moe-planned-imbalance 3", "allgather exclude each other"},
           {"--moe-planned-imbalance 3 --moe-token-dispatcher-type alltoall "
            "--moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity",
            "padded experts have equally many rows"},
           {"--moe-token-dispatcher-type some", "allgather"},
           {"--moe-input-jitter-eps 1", "--moe-input-jitter-eps"}}) {
    EXPECT_THAT(refusal_of("--num-experts 8 " + flags), HasSubstr(reason)) << flags;
  }
}

TEST(ConfigExperts, NeedSequenceParallelRanks) {
  const std::string experts = "--num-experts 8 " + config_tests::kTwoTensorRanks;
  config_tests::expect_refused(experts + "--expert-tensor-parallel-size 1",
                               "needs --sequence-parallel");
  EXPECT_EQ(
      config_tests::resolved(experts + "--sequence-parallel").layout.expert_tensor_parallel_size,
      2);
  config_tests::resolved(experts + "--expert-tensor-parallel-size 1 --sequence-parallel");
  config_tests::resolved(experts +
                         "--expert-tensor-parallel-size 1 --sequence-parallel "
                         "--expert-model-parallel-size 2");
}

TEST(ConfigExperts, HaveCopiesOfStates) {
  const std::string experts =
      "--num-experts 8 --world-size 4 --expert-model-parallel-size 2 --zero-stage 1 "
      "--num-distributed-optimizer-instances ";
  config_tests::resolved(experts + "2");
  config_tests::expect_refused(experts + "4", "4 does not divide the 2 data-parallel ranks of an");
}

TEST(ConfigExperts, OfADenseModelAreANewRun) {
  const std::string flags = "--num-experts 8 --moe-use-upcycling --save run --save-interval 1 ";
  const TrainConfig loaded = parsed(flags + "--load dense");
  EXPECT_TRUE(upcycles(loaded.run));
  EXPECT_TRUE(loaded.run.exit_on_missing_checkpoint);
  const TrainConfig resumed = parsed(flags + "--load run --pretrained-checkpoint dense");
  EXPECT_FALSE(upcycles(resumed.run));
  EXPECT_THAT(error_of([] { parsed("--moe-use-upcycling --load dense"); }),
              HasSubstr("--moe-use-upcycling needs --num-experts"));
  const TrainConfig planned = config_tests::parsed(
      {},
      "--num-layers 4 --hidden-size 96 --num-attention-heads 4 --max-position-embeddings 32 "
      "--seq-length 32 --micro-batch-size 1 --num-experts 8 --moe-use-upcycling",
      /*plans=*/true, {});
  EXPECT_FALSE(planned.run.finetune);
}

TEST(ConfigExperts, CountOverAWholeStep) {
  const std::string asynchronous =
      "--num-experts 8 --world-size 2 --pipeline-model-parallel-size 2 --global-batch-size 4 "
      "--pipeline-schedule pipedream ";
  config_tests::expect_refused(
      asynchronous + "--moe-router-score-function sigmoid --moe-router-enable-expert-bias",
      "pipedream and --moe-router-enable-expert-bias exclude each other");
  config_tests::expect_refused(
      asynchronous + "--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.1",
      "pipedream and --moe-router-load-balancing-type global_aux_loss exclude each other");
}

TEST(ConfigExperts, AreAGpts) {
  EXPECT_THAT(error_of([] {
                TrainConfig c = parsed("");
                c.model.family = "t5";
                c.experts.num_experts = 4;
                resolve(c, true);
              }),
              HasSubstr("--num-experts 4 is a flag of gpt, not of t5"));
}

}  // namespace
}  // namespace phalanx
