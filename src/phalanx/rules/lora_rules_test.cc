// Which adapters a model cannot have, and what they cannot be combined with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using config_tests::refusal_of;
using config_tests::resolved;

TEST(LoraRules, FlagsBecomeTheLayersSettings) {
  const nn::AdapterSettings adapters =
      transformer_config(resolved("--num-layers 4 --lora-rank 4 --lora-alpha 6 "
                                  "--lora-targets q v down --lora-layers 1-2 --lora-dropout 0.1 "
                                  "--lora-init gaussian"))
          .adapters;
  EXPECT_EQ(adapters.rank, 4);
  EXPECT_EQ(adapters.scale, 1.5);
  EXPECT_EQ(adapters.dropout, 0.1);
  EXPECT_TRUE(adapters.is_gaussian);
  using enum nn::AdapterPart;
  EXPECT_TRUE(adapters.has(1, kQuery) && adapters.has(2, kValue) && adapters.has(2, kDown));
  EXPECT_FALSE(adapters.has(0, kQuery) || adapters.has(3, kDown) || adapters.has(1, kKey));
  EXPECT_EQ(transformer_config(resolved()).adapters.rank, 0);
}

TEST(LoraRules, RefusesFlagsWithoutARank) {
  EXPECT_THAT(refusal_of(config_tests::valid(), "--lora-alpha 8"),
              HasSubstr("--lora-alpha 8 needs --lora-rank"));
  EXPECT_THAT(refusal_of(config_tests::valid(), "--lora-targets q"),
              HasSubstr("--lora-targets q needs --lora-rank"));
  EXPECT_THAT(refusal_of(config_tests::valid(), "--lora-load dir"),
              HasSubstr("--lora-load dir needs --lora-rank"));
}

TEST(LoraRules, RefusesWhatTheModelCannotHave) {
  EXPECT_THAT(refusal_of(config_tests::valid(), "--lora-rank 8"),
              HasSubstr("--lora-rank 8 needs --lora-alpha"));
  const std::string rank = "--lora-rank 8 --lora-alpha 16 ";
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-targets gate"),
              HasSubstr("give fc1"));
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-targets q qkv"),
              HasSubstr("one of the two"));
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-targets lm_head"),
              HasSubstr("--lora-targets lm_head"));
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-layers 2"),
              HasSubstr("the model has no layer 2"));
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-layers x"), HasSubstr("0-3,7"));
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--lora-dropout 1"),
              HasSubstr("--lora-dropout"));
}

TEST(LoraRules, RefusesWhatNeedsTrainedWeights) {
  const std::string rank = "--lora-rank 8 --lora-alpha 16 --world-size 2 ";
  EXPECT_THAT(refusal_of(config_tests::valid(), rank + "--zero-stage 3"),
              AllOf(HasSubstr("--lora-rank and --zero-stage 3"), HasSubstr("whole")));
}

TEST(LoraRules, RefusesOtherFamilies) {
  EXPECT_THAT(refusal_of(config_tests::valid(), "--family bert --lora-rank 8 --lora-alpha 16"),
              AllOf(HasSubstr("--lora-rank 8 is a flag of gpt, not of bert")));
}

}  // namespace
}  // namespace phalanx
