#pragma once
// Learning-rate and weight-decay schedules as Megatron's OptimizerParamScheduler: functions of the
// number of samples that successful updates have consumed. With warm-up the first update has the
// initial rate (0 by default).

#include <cstdint>
#include <optional>
#include <string_view>

namespace phalanx {

// kWarmupStableDecay ("WSD"): the largest rate until a last stretch of the decay, in which it falls
// by a style of its own (Hu et al., MiniCPM, 2024).
enum class DecayStyle : std::uint8_t {
  kConstant,
  kLinear,
  kCosine,
  kInverseSquareRoot,
  kWarmupStableDecay,
};
enum class StableDecayStyle : std::uint8_t { kExponential, kLinear, kCosine, kMinusSquareRoot };
enum class WeightDecayStyle : std::uint8_t { kConstant, kLinear, kCosine };

std::optional<DecayStyle> decay_style_from_name(std::string_view name);
std::string_view name_of(DecayStyle style);
std::optional<StableDecayStyle> stable_decay_style_from_name(std::string_view name);
std::string_view name_of(StableDecayStyle style);
std::optional<WeightDecayStyle> weight_decay_style_from_name(std::string_view name);
std::string_view name_of(WeightDecayStyle style);

// Of one moment of training.
struct LearningRates {
  double rate = 0.0;
  std::optional<double> decoupled = {};  // of the input and the output layer, where it is another
};

// All counts in samples.
struct ParameterSchedule {
  // The largest and the smallest rate of the input and the output layer, where they are others.
  struct Decoupled {
    double max_lr = 0.0;
    double min_lr = 0.0;
  };

  double max_lr = 0.0;
  double min_lr = 0.0;
  std::optional<Decoupled> decoupled = {};
  double warmup_init_lr = 0.0;
  double warmup_samples = 0.0;  // not whole where it is a share of the decay
  std::int64_t decay_samples = 1;
  DecayStyle decay_style = DecayStyle::kLinear;
  // The last stretch of kWarmupStableDecay.
  std::int64_t stable_decay_samples = 0;
  StableDecayStyle stable_decay_style = StableDecayStyle::kExponential;
  double start_weight_decay = 0.0;
  double end_weight_decay = 0.0;
  std::int64_t weight_decay_samples = 1;
  WeightDecayStyle weight_decay_style = WeightDecayStyle::kConstant;

  LearningRates learning_rates(std::int64_t samples) const;
  double learning_rate(std::int64_t samples) const { return learning_rates(samples).rate; }
  double weight_decay(std::int64_t samples) const;
};

}  // namespace phalanx
