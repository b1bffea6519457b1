#include "phalanx/settings/adapter_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum nn::AdapterPart;

std::vector<nn::AdapterPart> parts(std::vector<std::string> targets, bool gated) {
  LoraConfig lora;
  lora.targets = std::move(targets);
  ModelConfig model;
  model.gated_linear_unit = gated;
  return adapter_parts(lora, model);
}

TEST(AdapterSettings, LayersAreNumbersAndRanges) {
  EXPECT_THAT(adapter_layers_from_text("", 4), IsEmpty());
  EXPECT_THAT(adapter_layers_from_text("1", 3), ElementsAre(false, true, false));
  EXPECT_THAT(adapter_layers_from_text("0-1,3", 5), ElementsAre(true, true, false, true, false));
  for (const char* text : {"a", "1,", ",1", "3-1", "-1", "1-", "1 2", "0-3-4"}) {
    EXPECT_THAT(error_of([&] { adapter_layers_from_text(text, 8); }),
                AllOf(HasSubstr("--lora-layers"), HasSubstr("0-3,7")))
        << text;
  }
  EXPECT_THAT(error_of([] { adapter_layers_from_text("1-4", 4); }),
              AllOf(HasSubstr("no layer 4"), HasSubstr("0 to 3")));
}

TEST(AdapterSettings, AllLinearsByParts) {
  EXPECT_THAT(parts({"all-linear"}, true),
              ElementsAre(kQuery, kKey, kValue, kOutput, kGate, kUp, kDown));
  EXPECT_THAT(parts({"all-linear"}, false),
              ElementsAre(kQuery, kKey, kValue, kOutput, kDown, kFc1));
  EXPECT_THAT(parts({"v", "q", "v"}, false), ElementsAre(kQuery, kValue));
  EXPECT_THAT(parts({"qkv", "fc1"}, true), ElementsAre(kQkv, kFc1));
}

TEST(AdapterSettings, RefusesPartsThatAreNotThereOrOverlap) {
  EXPECT_THAT(error_of([] { parts({"gate"}, false); }), HasSubstr("give fc1"));
  EXPECT_THAT(error_of([] {
                parts({"q", "qkv"}, true);
              }),
              AllOf(HasSubstr("--lora-targets q qkv"), HasSubstr("one of the two")));
  EXPECT_THAT(error_of([] { parts({"fc1", "all-linear"}, true); }), HasSubstr("fc1"));
  EXPECT_THAT(error_of([] { parts({"lm_head"}, true); }),
              AllOf(HasSubstr("--lora-targets lm_head"), HasSubstr("all-linear")));
}

TEST(AdapterSettings, ScaleIsAlphaOverTheRankOrItsRoot) {
  LoraConfig lora;
  lora.rank = 16;
  lora.alpha = 32.0;
  EXPECT_EQ(adapter_settings(lora, {}).scale, 2.0);
  lora.scaling = "rank-stabilized";
  EXPECT_EQ(adapter_settings(lora, {}).scale, 8.0);
  lora.alpha.reset();
  EXPECT_THAT(error_of([&] { adapter_settings(lora, {}); }),
              AllOf(HasSubstr("--lora-rank 16 needs --lora-alpha"), HasSubstr("32")));
  EXPECT_EQ(adapter_settings({}, {}).rank, 0);
}

}  // namespace
}  // namespace phalanx
