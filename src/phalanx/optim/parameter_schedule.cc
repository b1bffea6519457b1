#include "phalanx/optim/parameter_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace phalanx {
namespace {

constexpr std::array<std::pair<std::string_view, DecayStyle>, 5> kDecayStyles = {{
    {"constant", DecayStyle::kConstant},
    {"linear", DecayStyle::kLinear},
    {"cosine", DecayStyle::kCosine},
    {"inverse-square-root", DecayStyle::kInverseSquareRoot},
    {"WSD", DecayStyle::kWarmupStableDecay},
}};
constexpr std::array<std::pair<std::string_view, StableDecayStyle>, 4> kStableDecayStyles = {{
    {"exponential", StableDecayStyle::kExponential},
    {"linear", StableDecayStyle::kLinear},
    {"cosine", StableDecayStyle::kCosine},
    {"minus_sqrt", StableDecayStyle::kMinusSquareRoot},
}};
constexpr std::array<std::pair<std::string_view, WeightDecayStyle>, 3> kWeightDecayStyles = {{
    {"constant", WeightDecayStyle::kConstant},
    {"linear", WeightDecayStyle::kLinear},
    {"cosine", WeightDecayStyle::kCosine},
}};

template <typename Table>
auto find_style(const Table& table, std::string_view name)
    -> std::optional<decltype(table[0].second)> {
  for (const auto& [known, style] : table) {
    if (known == name) return style;
  }
  return std::nullopt;
}

// From 1 to 0 over ratios from 0 to 1.
double half_cosine(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

double stable_decay(StableDecayStyle style, double ratio) {
  switch (style) {
    case StableDecayStyle::kExponential:
      return 2.0 * std::pow(0.5, ratio) - 1.0;
    case StableDecayStyle::kLinear:
      return 1.0 - ratio;
    case StableDecayStyle::kCosine:
      return half_cosine(ratio);
    case StableDecayStyle::kMinusSquareRoot:
      return 1.0 - std::sqrt(ratio);
  }
  return 0.0;
}

// How much of the way from the smallest rate to the largest is left between the end of the warm-up
// and that of the decay.
double decay_coefficient(const ParameterSchedule& s, std::int64_t samples) {
  if (s.decay_style == DecayStyle::kWarmupStableDecay) {
    const std::int64_t fallen = samples - (s.decay_samples - s.stable_decay_samples);
    if (fallen <= 0) return 1.0;
    return stable_decay(s.stable_decay_style,
                        static_cast<double>(fallen) / static_cast<double>(s.stable_decay_samples));
  }
  const double ratio = (static_cast<double>(samples) - s.warmup_samples) /
                       (static_cast<double>(s.decay_samples) - s.warmup_samples);
  return s.decay_style == DecayStyle::kLinear ? 1.0 - ratio : half_cosine(ratio);
}

// The conditions in Megatron's order.
double rate_between(const ParameterSchedule& s, double max_lr, double min_lr,
                    std::int64_t samples) {
  const auto n = static_cast<double>(samples);
  const double warmup = s.warmup_samples;
  if (warmup > 0.0 && n <= warmup) {
    return s.warmup_init_lr + (max_lr - s.warmup_init_lr) * n / warmup;
  }
  if (s.decay_style == DecayStyle::kConstant) return max_lr;
  if (samples > s.decay_samples) return min_lr;
  if (s.decay_style == DecayStyle::kInverseSquareRoot) {
    return std::max(min_lr,
                    max_lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  }
  return min_lr + decay_coefficient(s, samples) * (max_lr - min_lr);
}

}  // namespace

std::optional<DecayStyle> decay_style_from_name(std::string_view name) {
  return find_style(kDecayStyles, name);
}
std::string_view name_of(DecayStyle style) {
  return kDecayStyles[static_cast<std::size_t>(style)].first;
}
std::optional<StableDecayStyle> stable_decay_style_from_name(std::string_view name) {
  return find_style(kStableDecayStyles, name);
}
std::string_view name_of(StableDecayStyle style) {
  return kStableDecayStyles[static_cast<std::size_t>(style)].first;
}
std::optional<WeightDecayStyle> weight_decay_style_from_name(std::string_view name) {
  return find_style(kWeightDecayStyles, name);
}
std::string_view name_of(WeightDecayStyle style) {
  return kWeightDecayStyles[static_cast<std::size_t>(style)].first;
}

LearningRates ParameterSchedule::learning_rates(std::int64_t samples) const {
  LearningRates rates{.rate = rate_between(*this, max_lr, min_lr, samples), .decoupled = {}};
  if (decoupled)
    rates.decoupled = rate_between(*this, decoupled->max_lr, decoupled->min_lr, samples);
  return rates;
}

double ParameterSchedule::weight_decay(std::int64_t samples) const {
  if (samples > weight_decay_samples) return end_weight_decay;
  const double ratio = static_cast<double>(samples) / static_cast<double>(weight_decay_samples);
  switch (weight_decay_style) {
    case WeightDecayStyle::kConstant:
      return start_weight_decay;
    case WeightDecayStyle::kLinear:
      return start_weight_decay + ratio * (end_weight_decay - start_weight_decay);
    case WeightDecayStyle::kCosine:
      return start_weight_decay +
             half_cosine(1.0 - ratio) * (end_weight_decay - start_weight_decay);
  }
  return end_weight_decay;
}

}  // namespace phalanx
