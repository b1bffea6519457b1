#include "phalanx/optim/parameter_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

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

// The closed formulas by an independent program in doubles: from 0.00001 to 0.0006, down to 0.00006
// at 1,000 samples; the last stretch of WSD is 250 of them.
constexpr std::array<std::int64_t, 11> kSamples = {0,   1,   50,  100,  101, 400,
                                                   750, 751, 900, 1000, 1001};
struct Curve {
  std::string_view style;  // and of WSD its own
  double warmup;
  std::array<double, kSamples.size()> rates;
};
constexpr Curve kCurves[] = {
    {"constant",
     0,
     {0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006}},
    {"linear",
     0,
     {0.0006, 0.0005994599999999999, 0.0005729999999999999, 0.0005459999999999999,
      0.0005454599999999999, 0.0003839999999999999, 0.00019499999999999997, 0.00019445999999999998,
      0.00011399999999999998, 6e-05, 6e-05}},
    {"cosine",
     0,
     {0.0006, 0.0005999986676045017, 0.0005966758519606872, 0.0005867852593996914,
      0.0005865218751572083, 0.00041343458848123576, 0.00013908116907963218, 0.0001384823230154861,
      7.321474060030854e-05, 6e-05, 6e-05}},
    {"inverse-square-root",
     0,
     {0.0006, 0.0006, 8.48528137423857e-05, 6e-05, 6e-05, 6e-05, 6e-05, 6e-05, 6e-05, 6e-05,
      6e-05}},
    {"WSD exponential",
     0,
     {0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.000597009751460235,
      0.00023253427181736284, 6e-05, 6e-05}},
    {"WSD linear",
     0,
     {0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.00059784, 0.000276, 6e-05, 6e-05}},
    {"WSD cosine",
     0,
     {0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0005999786819350303,
      0.0002465654115187642, 6e-05, 6e-05}},
    {"WSD minus_sqrt",
     0,
     {0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0005658474012701814,
      0.00018171779860959894, 6e-05, 6e-05}},
    {"constant",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006}},
    {"linear",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0005993999999999999, 0.00041999999999999996,
      0.00020999999999999998, 0.00020939999999999994, 0.00012000000000000002, 6e-05, 6e-05}},
    {"cosine",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0005999983550676034, 0.00046499999999999997,
      0.00015644734538463437, 0.0001557264243145333, 7.628299238780474e-05, 6e-05, 6e-05}},
    {"inverse-square-root",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0005970223141259935, 0.0003, 0.0002190890230020664,
      0.000218943109550648, 0.00019999999999999998, 0.00018973665961010276, 6e-05}},
    {"WSD exponential",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0006, 0.0006, 0.0006, 0.000597009751460235,
      0.00023253427181736284, 6e-05, 6e-05}},
    {"WSD linear",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0006, 0.0006, 0.0006, 0.00059784, 0.000276, 6e-05,
      6e-05}},
    {"WSD cosine",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0006, 0.0006, 0.0006, 0.0005999786819350303,
      0.0002465654115187642, 6e-05, 6e-05}},
    {"WSD minus_sqrt",
     100,
     {1e-05, 1.59e-05, 0.000305, 0.0006, 0.0006, 0.0006, 0.0006, 0.0005658474012701814,
      0.00018171779860959894, 6e-05, 6e-05}},
    {"constant",
     12.34,
     {1e-05, 5.781199351701782e-05, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006, 0.0006,
      0.0006}},
    {"linear",
     12.34,
     {1e-05, 5.781199351701782e-05, 0.000579409513395298, 0.0005520721705850191,
      0.0005515254237288135, 0.000388048113723346, 0.0001966867140513942, 0.0001961399671951886,
      0.00011467468562055765, 6e-05, 6e-05}},
    {"cosine",
     12.34,
     {1e-05, 5.781199351701782e-05, 0.000598065094244609, 0.0005895718827336895,
      0.0005893341915721386, 0.00041945843429406544, 0.00014096379929181188, 0.0001403515436909293,
      7.354421215077687e-05, 6e-05, 6e-05}},
    {"inverse-square-root",
     12.34,
     {1e-05, 5.781199351701782e-05, 0.00029807381636098125, 0.00021077001684300354,
      0.0002097240053399743, 0.00010538500842150177, 7.696232844710456e-05, 7.691107147941608e-05,
      7.025667228100117e-05, 6.665133156959431e-05, 6e-05}},
};

ParameterSchedule schedule_of(const Curve& curve) {
  ParameterSchedule s{.max_lr = 6e-4,
                      .min_lr = 6e-5,
                      .warmup_init_lr = 1e-5,
                      .warmup_samples = curve.warmup,
                      .decay_samples = 1000,
                      .stable_decay_samples = 250};
  const std::size_t blank = curve.style.find(' ');
  s.decay_style = *decay_style_from_name(curve.style.substr(0, blank));
  if (blank != std::string_view::npos) {
    s.stable_decay_style = *stable_decay_style_from_name(curve.style.substr(blank + 1));
  }
  return s;
}

TEST(ParameterSchedule, FollowsTheFormulas) {
  for (const Curve& curve : kCurves) {
    const ParameterSchedule s = schedule_of(curve);
    for (std::size_t i = 0; i < kSamples.size(); ++i) {
      EXPECT_NEAR(s.learning_rate(kSamples[i]), curve.rates[i], 1e-18)
          << curve.style << ", warm-up " << curve.warmup << ", " << kSamples[i] << " samples";
      EXPECT_EQ(s.learning_rates(kSamples[i]).decoupled, std::nullopt);
    }
  }
}

// From the same 0.00001 to 0.002, down to 0.0003.
TEST(ParameterSchedule, DecoupledRatesFollowTheSameCurve) {
  constexpr Curve kDecoupled[] = {
      {"cosine",
       100,
       {1e-05, 2.99e-05, 0.001005, 0.002, 0.001999994821509122, 0.001575, 0.0006036305317664416,
        0.0006013609654346422, 0.0003512612723319779, 0.0003, 0.0003}},
      {"WSD linear",
       100,
       {1e-05, 2.99e-05, 0.001005, 0.002, 0.002, 0.002, 0.002, 0.0019932, 0.00098, 0.0003, 0.0003}},
  };
  for (const Curve& curve : kDecoupled) {
    ParameterSchedule s = schedule_of(curve);
    const ParameterSchedule without = s;
    s.decoupled = {.max_lr = 2e-3, .min_lr = 3e-4};
    for (std::size_t i = 0; i < kSamples.size(); ++i) {
      const LearningRates rates = s.learning_rates(kSamples[i]);
      ASSERT_TRUE(rates.decoupled);
      EXPECT_NEAR(*rates.decoupled, curve.rates[i], 1e-17) << curve.style << " " << kSamples[i];
      EXPECT_EQ(rates.rate, without.learning_rate(kSamples[i]));
    }
  }
}

// The last stretch may be all of the decay.
TEST(ParameterSchedule, StableDecayCanBeginAtOnce) {
  ParameterSchedule s = schedule_of({"WSD linear", 0, {}});
  s.stable_decay_samples = 1000;
  const ParameterSchedule linear = schedule_of({"linear", 0, {}});
  for (const std::int64_t samples : kSamples) {
    EXPECT_NEAR(s.learning_rate(samples), linear.learning_rate(samples), 1e-18) << samples;
  }
}

TEST(ParameterSchedule, WeightDecayGrows) {
  constexpr std::array<std::int64_t, 7> kCounts = {0, 1, 250, 500, 999, 1000, 1001};
  constexpr std::array<double, 7> kLinear = {0.01,    0.01009, 0.0325, 0.05500000000000001,
                                             0.09991, 0.1,     0.1};
  constexpr std::array<double, 7> kCosine = {
      0.01, 0.010000222065916383, 0.023180194846605363, 0.055, 0.09999977793408361, 0.1, 0.1};
  ParameterSchedule s{
      .start_weight_decay = 0.01, .end_weight_decay = 0.1, .weight_decay_samples = 1000};
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    s.weight_decay_style = WeightDecayStyle::kLinear;
    EXPECT_NEAR(s.weight_decay(kCounts[i]), kLinear[i], 1e-16) << kCounts[i];
    s.weight_decay_style = WeightDecayStyle::kCosine;
    EXPECT_NEAR(s.weight_decay(kCounts[i]), kCosine[i], 1e-16) << kCounts[i];
  }
  s.weight_decay_style = WeightDecayStyle::kConstant;
  s.start_weight_decay = 0.1;
  for (const std::int64_t count : kCounts) EXPECT_EQ(s.weight_decay(count), 0.1);
}

TEST(ParameterSchedule, Names) {
  EXPECT_EQ(decay_style_from_name("cosine"), DecayStyle::kCosine);
  EXPECT_EQ(decay_style_from_name("WSD"), DecayStyle::kWarmupStableDecay);
  EXPECT_EQ(decay_style_from_name("wsd"), std::nullopt);
  EXPECT_EQ(name_of(DecayStyle::kInverseSquareRoot), "inverse-square-root");
  EXPECT_EQ(name_of(StableDecayStyle::kMinusSquareRoot), "minus_sqrt");
  EXPECT_EQ(stable_decay_style_from_name("constant"), std::nullopt);
}

}  // namespace
}  // namespace phalanx
