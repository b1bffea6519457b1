#include "phalanx/saving/stored_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

constexpr const char* kMaxLr = "schedule.max_lr";
constexpr const char* kMinLr = "schedule.min_lr";
constexpr const char* kDecoupledMaxLr = "schedule.decoupled_max_lr";
constexpr const char* kDecoupledMinLr = "schedule.decoupled_min_lr";
constexpr const char* kWarmupInitLr = "schedule.warmup_init_lr";
constexpr const char* kWarmupSamples = "schedule.warmup_samples";
constexpr const char* kDecaySamples = "schedule.decay_samples";
constexpr const char* kDecayStyle = "schedule.decay_style";
constexpr const char* kStableDecaySamples = "schedule.wsd_decay_samples";
constexpr const char* kStableDecayStyle = "schedule.wsd_decay_style";
constexpr const char* kStartWeightDecay = "schedule.start_weight_decay";
constexpr const char* kEndWeightDecay = "schedule.end_weight_decay";
constexpr const char* kWeightDecaySamples = "schedule.weight_decay_samples";
constexpr const char* kWeightDecayStyle = "schedule.weight_decay_style";

struct Field {
  const char* key;
  std::string_view name;     // the flag that sets it
  bool is_optional = false;  // not all schedules have it
};
constexpr std::array<Field, 14> kFields = {{
    {kMaxLr, "--lr"},
    {kMinLr, "--min-lr"},
    {kDecoupledMaxLr, "--decoupled-lr", true},
    {kDecoupledMinLr, "--decoupled-min-lr", true},
    {kWarmupInitLr, "--lr-warmup-init"},
    {kWarmupSamples, "warm-up in samples"},
    {kDecayStyle, "--lr-decay-style"},
    {kDecaySamples, "decay of the learning rate in samples"},
    {kStableDecayStyle, "--lr-wsd-decay-style", true},
    {kStableDecaySamples, "last decay of WSD in samples", true},
    {kWeightDecayStyle, "--weight-decay-incr-style"},
    {kStartWeightDecay, "first weight decay"},
    {kEndWeightDecay, "last weight decay"},
    {kWeightDecaySamples, "growth of the weight decay in samples"},
}};

std::string exact(double value) { return fmt::format("{}", value); }

// A whole number without a point or an exponent, as counts are written.
std::string samples_text(double samples) {
  constexpr double kExactIntegers = 9007199254740992.0;
  const bool is_whole = std::floor(samples) == samples && std::abs(samples) < kExactIntegers;
  return is_whole ? std::to_string(static_cast<std::int64_t>(samples)) : exact(samples);
}

bool has(const Manifest& manifest, const char* key) { return manifest.arguments.contains(key); }

const std::string& stored(const Manifest& manifest, const char* key) {
  const auto found = manifest.arguments.find(key);
  if (found == manifest.arguments.end()) {
    throw ConfigError(
        "the checkpoint of iteration {} does not say {}: give --override-opt_param-scheduler to "
        "use the flags' schedule",
        manifest.iteration, key);
  }
  return found->second;
}

template <typename Number>
Number stored_number(const Manifest& manifest, const char* key) {
  const std::string& text = stored(manifest, key);
  const auto value = parse_number<Number>(text);
  if (!value) throw DataError("the checkpoint's {} is not a number: {}", key, text);
  return *value;
}

template <typename Style>
Style stored_style(const Manifest& manifest, const char* key,
                   std::optional<Style> (*from_name)(std::string_view)) {
  const std::optional<Style> style = from_name(stored(manifest, key));
  if (!style) {
    throw DataError("the checkpoint's {} is unknown: {}", key, stored(manifest, key));
  }
  return *style;
}

// Whether a field can change a learning rate or a decay at all under these styles.
bool matters(std::string_view key, const ParameterSchedule& s) {
  if (key == kWeightDecaySamples) return s.weight_decay_style != WeightDecayStyle::kConstant;
  if (key == kDecaySamples || key == kMinLr || key == kDecoupledMinLr) {
    return s.decay_style != DecayStyle::kConstant;
  }
  return true;
}

}  // namespace

std::map<std::string, std::string> schedule_arguments(const ParameterSchedule& s) {
  std::map<std::string, std::string> arguments = {
      {kMaxLr, exact(s.max_lr)},
      {kMinLr, exact(s.min_lr)},
      {kWarmupInitLr, exact(s.warmup_init_lr)},
      {kWarmupSamples, samples_text(s.warmup_samples)},
      {kDecaySamples, std::to_string(s.decay_samples)},
      {kDecayStyle, std::string(name_of(s.decay_style))},
      {kStartWeightDecay, exact(s.start_weight_decay)},
      {kEndWeightDecay, exact(s.end_weight_decay)},
      {kWeightDecaySamples, std::to_string(s.weight_decay_samples)},
      {kWeightDecayStyle, std::string(name_of(s.weight_decay_style))}};
  if (s.decoupled) {
    arguments[kDecoupledMaxLr] = exact(s.decoupled->max_lr);
    arguments[kDecoupledMinLr] = exact(s.decoupled->min_lr);
  }
  if (s.decay_style == DecayStyle::kWarmupStableDecay) {
    arguments[kStableDecaySamples] = std::to_string(s.stable_decay_samples);
    arguments[kStableDecayStyle] = name_of(s.stable_decay_style);
  }
  return arguments;
}

ParameterSchedule stored_schedule(const Manifest& manifest) {
  ParameterSchedule schedule{
      .max_lr = stored_number<double>(manifest, kMaxLr),
      .min_lr = stored_number<double>(manifest, kMinLr),
      .warmup_init_lr = stored_number<double>(manifest, kWarmupInitLr),
      .warmup_samples = stored_number<double>(manifest, kWarmupSamples),
      .decay_samples = stored_number<std::int64_t>(manifest, kDecaySamples),
      .decay_style = stored_style(manifest, kDecayStyle, decay_style_from_name),
      .start_weight_decay = stored_number<double>(manifest, kStartWeightDecay),
      .end_weight_decay = stored_number<double>(manifest, kEndWeightDecay),
      .weight_decay_samples = stored_number<std::int64_t>(manifest, kWeightDecaySamples),
      .weight_decay_style =
          stored_style(manifest, kWeightDecayStyle, weight_decay_style_from_name)};
  if (schedule.decay_style == DecayStyle::kWarmupStableDecay) {
    schedule.stable_decay_samples = stored_number<std::int64_t>(manifest, kStableDecaySamples);
    schedule.stable_decay_style =
        stored_style(manifest, kStableDecayStyle, stable_decay_style_from_name);
  }
  if (has(manifest, kDecoupledMaxLr)) {
    schedule.decoupled = {.max_lr = stored_number<double>(manifest, kDecoupledMaxLr),
                          .min_lr = stored_number<double>(manifest, kDecoupledMinLr)};
  }
  return schedule;
}

std::vector<ScheduleDifference> schedule_differences(const ParameterSchedule& asked,
                                                     const Manifest& manifest) {
  const auto arguments = schedule_arguments(asked);
  const auto value_of = [&](const Field& field) -> std::string {
    const auto found = arguments.find(field.key);
    return found == arguments.end() ? "not given" : found->second;
  };
  const auto stored_value_of = [&](const Field& field) -> std::string {
    if (field.is_optional && !has(manifest, field.key)) return "not given";
    return stored(manifest, field.key);
  };
  std::vector<ScheduleDifference> differences;
  for (const Field& field : kFields) {
    if (!matters(field.key, asked)) continue;
    ScheduleDifference difference{field.name, value_of(field), stored_value_of(field)};
    if (difference.asked != difference.stored) differences.push_back(std::move(difference));
  }
  return differences;
}

std::string to_table(const std::vector<ScheduleDifference>& differences) {
  constexpr std::string_view kAsked = "this run";
  constexpr std::string_view kStored = "checkpoint";
  std::size_t names = 0;
  std::size_t asked = kAsked.size();
  std::size_t stored = kStored.size();
  for (const auto& difference : differences) {
    names = std::max(names, difference.name.size());
    asked = std::max(asked, difference.asked.size());
    stored = std::max(stored, difference.stored.size());
  }
  const auto line = [&](std::string_view name, std::string_view left, std::string_view right) {
    return fmt::format("  {:<{}}  {:>{}}  {:>{}}", name, names, left, asked, right, stored);
  };
  std::string text = line("", kAsked, kStored);
  for (const auto& difference : differences) {
    text += "\n" + line(difference.name, difference.asked, difference.stored);
  }
  return text;
}

}  // namespace phalanx
