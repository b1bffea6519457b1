#include "phalanx/optim/parameter_schedule.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

ParameterSchedule schedule(DecayStyle style) {
  return {.max_lr = 1.0,
          .min_lr = 0.1,
          .warmup_init_lr = 0.0,
          .warmup_samples = 100,
          .decay_samples = 1100,
          .decay_style = style};
}

TEST(ParameterSchedule, WarmsUpFromZero) {
  const auto s = schedule(DecayStyle::kCosine);
  EXPECT_DOUBLE_EQ(s.learning_rate(0), 0.0);
  EXPECT_DOUBLE_EQ(s.learning_rate(50), 0.5);
  EXPECT_DOUBLE_EQ(s.learning_rate(100), 1.0);
}

TEST(ParameterSchedule, Decays) {
  EXPECT_NEAR(schedule(DecayStyle::kCosine).learning_rate(600), 0.55, 1e-12);
  EXPECT_NEAR(schedule(DecayStyle::kLinear).learning_rate(350), 0.1 + 0.75 * 0.9, 1e-12);
  EXPECT_NEAR(schedule(DecayStyle::kInverseSquareRoot).learning_rate(400), 0.5, 1e-12);
  for (const auto style :
       {DecayStyle::kCosine, DecayStyle::kLinear, DecayStyle::kInverseSquareRoot}) {
    EXPECT_DOUBLE_EQ(schedule(style).learning_rate(1101), 0.1);
  }
  EXPECT_DOUBLE_EQ(schedule(DecayStyle::kCosine).learning_rate(1100), 0.1);
  EXPECT_DOUBLE_EQ(schedule(DecayStyle::kConstant).learning_rate(5000), 1.0);
}

// Megatron's GPT 345M: 1.5e-4 after 3,200 warm-up iterations of 8 samples; iteration 100
// logs 4.687E-06.
TEST(ParameterSchedule, MegatronLogValue) {
  const ParameterSchedule s{.max_lr = 1.5e-4,
                            .min_lr = 1e-5,
                            .warmup_samples = 25600,
                            .decay_samples = 2560000,
                            .decay_style = DecayStyle::kCosine};
  EXPECT_NEAR(s.learning_rate(800), 4.6875e-06, 1e-12);
}

// A warm-up of 1 % of 1,234 samples is 12.34 of them; values by decimal arithmetic.
TEST(ParameterSchedule, AWarmupNeedNotBeWhole) {
  ParameterSchedule s{.max_lr = 1e-3,
                      .min_lr = 1e-4,
                      .warmup_samples = 12.34,
                      .decay_samples = 1234,
                      .decay_style = DecayStyle::kLinear};
  EXPECT_DOUBLE_EQ(s.learning_rate(4), 0.00032414910858995135);
  EXPECT_DOUBLE_EQ(s.learning_rate(12), 0.0009724473257698541);
  EXPECT_DOUBLE_EQ(s.learning_rate(13), 0.000999513776337115);
  EXPECT_DOUBLE_EQ(s.learning_rate(100), 0.0009354206571386474);
  s.decay_style = DecayStyle::kCosine;
  EXPECT_DOUBLE_EQ(s.learning_rate(13), 0.0009999993518592582);
  EXPECT_DOUBLE_EQ(s.learning_rate(100), 0.000988614696571815);
  s.decay_style = DecayStyle::kInverseSquareRoot;
  EXPECT_DOUBLE_EQ(s.learning_rate(100), 0.00035128336140500594);
}

TEST(ParameterSchedule, WeightDecayGrows) {
  ParameterSchedule s{.start_weight_decay = 0.0,
                      .end_weight_decay = 0.1,
                      .weight_decay_samples = 100,
                      .weight_decay_style = WeightDecayStyle::kLinear};
  EXPECT_DOUBLE_EQ(s.weight_decay(50), 0.05);
  s.weight_decay_style = WeightDecayStyle::kCosine;
  EXPECT_NEAR(s.weight_decay(50), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(s.weight_decay(101), 0.1);
}

TEST(ParameterSchedule, Names) {
  EXPECT_EQ(decay_style_from_name("cosine"), DecayStyle::kCosine);
  EXPECT_EQ(decay_style_from_name("WSD"), std::nullopt);
  EXPECT_EQ(name_of(DecayStyle::kInverseSquareRoot), "inverse-square-root");
}

}  // namespace
}  // namespace phalanx
