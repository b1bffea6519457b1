#include "phalanx/optim/parameter_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace phalanx {
namespace {

constexpr std::array<std::pair<std::string_view, DecayStyle>, 4> kDecayStyles = {{
    {"constant", DecayStyle::kConstant},
    {"linear", DecayStyle::kLinear},
    {"cosine", DecayStyle::kCosine},
    {"inverse-square-root", DecayStyle::kInverseSquareRoot},
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

}  // namespace

std::optional<DecayStyle> decay_style_from_name(std::string_view name) {
  return find_style(kDecayStyles, name);
}
std::string_view name_of(DecayStyle style) {
  return kDecayStyles[static_cast<std::size_t>(style)].first;
}
std::optional<WeightDecayStyle> weight_decay_style_from_name(std::string_view name) {
  return find_style(kWeightDecayStyles, name);
}
std::string_view name_of(WeightDecayStyle style) {
  return kWeightDecayStyles[static_cast<std::size_t>(style)].first;
}

double ParameterSchedule::learning_rate(std::int64_t samples) const {
  const auto n = static_cast<double>(samples);
  const double warmup = warmup_samples;
  if (warmup > 0.0 && n <= warmup) {
    return warmup_init_lr + (max_lr - warmup_init_lr) * n / warmup;
  }
  if (decay_style == DecayStyle::kConstant) return max_lr;
  if (samples > decay_samples) return min_lr;
  if (decay_style == DecayStyle::kInverseSquareRoot) {
    return std::max(min_lr,
                    max_lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  }
  const double ratio = (n - warmup) / (static_cast<double>(decay_samples) - warmup);
  const double coefficient = decay_style == DecayStyle::kLinear
                                 ? 1.0 - ratio
                                 : 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
  return min_lr + coefficient * (max_lr - min_lr);
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
      return start_weight_decay + 0.5 * (std::cos(std::numbers::pi * (1.0 - ratio)) + 1.0) *
                                      (end_weight_decay - start_weight_decay);
  }
  return end_weight_decay;
}

}  // namespace phalanx
