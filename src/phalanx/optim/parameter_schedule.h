#pragma once
// Learning-rate and weight-decay schedules as Megatron's OptimizerParamScheduler: functions of the
// number of samples that successful updates have consumed. With warm-up the first update has the
// initial rate (0 by default).

#include <cstdint>
#include <optional>
#include <string_view>

namespace phalanx {

enum class DecayStyle : std::uint8_t { kConstant, kLinear, kCosine, kInverseSquareRoot };
enum class WeightDecayStyle : std::uint8_t { kConstant, kLinear, kCosine };

std::optional<DecayStyle> decay_style_from_name(std::string_view name);
std::string_view name_of(DecayStyle style);
std::optional<WeightDecayStyle> weight_decay_style_from_name(std::string_view name);
std::string_view name_of(WeightDecayStyle style);

// All counts in samples.
struct ParameterSchedule {
  double max_lr = 0.0;
  double min_lr = 0.0;
  double warmup_init_lr = 0.0;
  double warmup_samples = 0.0;  // not whole where it is a share of the decay
  std::int64_t decay_samples = 1;
  DecayStyle decay_style = DecayStyle::kLinear;
  double start_weight_decay = 0.0;
  double end_weight_decay = 0.0;
  std::int64_t weight_decay_samples = 1;
  WeightDecayStyle weight_decay_style = WeightDecayStyle::kConstant;

  double learning_rate(std::int64_t samples) const;
  double weight_decay(std::int64_t samples) const;
};

}  // namespace phalanx
