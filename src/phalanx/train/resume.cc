#include "phalanx/train/resume.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/train/config_rules.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/flags.h"

namespace phalanx {
namespace {

std::string exact(double value) { return fmt::format("{}", value); }

// A whole number without a point or an exponent, as counts are written.
std::string samples_text(double samples) {
  constexpr double kExactIntegers = 9007199254740992.0;
  const bool is_whole = std::floor(samples) == samples && std::abs(samples) < kExactIntegers;
  return is_whole ? std::to_string(static_cast<std::int64_t>(samples)) : exact(samples);
}

const std::string& stored(const Manifest& manifest, const std::string& key) {
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
Number stored_number(const Manifest& manifest, const std::string& key) {
  const std::string& text = stored(manifest, key);
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) {
    throw DataError("the checkpoint's {} is not a number: {}", key, text);
  }
  return value;
}

ParameterSchedule stored_schedule(const Manifest& manifest) {
  const auto decay = decay_style_from_name(stored(manifest, "schedule.decay_style"));
  const auto weight_decay =
      weight_decay_style_from_name(stored(manifest, "schedule.weight_decay_style"));
  if (!decay || !weight_decay) throw DataError("the checkpoint's schedule has an unknown style");
  return {.max_lr = stored_number<double>(manifest, "schedule.max_lr"),
          .min_lr = stored_number<double>(manifest, "schedule.min_lr"),
          .warmup_init_lr = stored_number<double>(manifest, "schedule.warmup_init_lr"),
          .warmup_samples = stored_number<double>(manifest, "schedule.warmup_samples"),
          .decay_samples = stored_number<std::int64_t>(manifest, "schedule.decay_samples"),
          .decay_style = *decay,
          .start_weight_decay = stored_number<double>(manifest, "schedule.start_weight_decay"),
          .end_weight_decay = stored_number<double>(manifest, "schedule.end_weight_decay"),
          .weight_decay_samples =
              stored_number<std::int64_t>(manifest, "schedule.weight_decay_samples"),
          .weight_decay_style = *weight_decay};
}

// Whether a field can change a learning rate or a decay at all under these styles.
bool matters(std::string_view key, const ParameterSchedule& s) {
  if (key == "schedule.weight_decay_samples") {
    return s.weight_decay_style != WeightDecayStyle::kConstant;
  }
  if (key == "schedule.decay_samples" || key == "schedule.min_lr") {
    return s.decay_style != DecayStyle::kConstant;
  }
  return true;
}

std::string or_none(const std::string& value) { return value.empty() ? "not given" : value; }

// Flags whose values differ from those that the checkpoint was made with, by their class. A new run
// from its weights must fit them alone.
void check_flags(const TrainConfig& config, const Manifest& manifest, Faults& faults) {
  TrainConfig values = config;  // targets are variables; these are read alone
  for (const TrainFlag& flag : train_flags()) {
    const ResumeClass resume = flag.spec.resume;
    if (flag.target == nullptr || resume == ResumeClass::kFree) continue;
    if (config.run.finetune && resume != ResumeClass::kShape) continue;
    const auto found = manifest.arguments.find(std::string(flag.spec.name));
    if (found == manifest.arguments.end()) continue;
    const FlagTarget target = flag.target(values);
    const FlagType type = type_of(target, flag.spec.type);
    const std::string now = canonical_value(type, text_of(target));
    const std::string then = canonical_value(type, found->second);
    // An older checkpoint says nothing of a text that is not given.
    if (now == then || (type == FlagType::kText && then.empty())) continue;
    const bool is_refused = resume == ResumeClass::kFixed || resume == ResumeClass::kShape;
    // A schedule's values are compared as what they come to, unless the flags' are wanted.
    const bool is_said =
        resume == ResumeClass::kWarned ||
        (resume == ResumeClass::kSchedule && config.optimizer.override_opt_param_scheduler);
    if (is_refused && !is_allowed_to_change(config.run, flag.spec.name)) {
      const std::string_view advice =
          resume == ResumeClass::kShape
              ? "the same value (--use-checkpoint-args takes it from the checkpoint)"
              : "the same value, --finetune to start a new run from its weights";
      faults.add(
          fmt::format("{} is {}, but the checkpoint of iteration {} was made with {}: give {}, or "
                      "--allow-changed {}",
                      flag.spec.name, or_none(now), manifest.iteration, or_none(then), advice,
                      flag.spec.name.substr(2)));
    } else if (is_refused || is_said) {
      log_warning("{} is {}, the checkpoint of iteration {} was made with {}", flag.spec.name,
                  or_none(now), manifest.iteration, or_none(then));
    }
  }
}

// A field of the schedule as people set it.
std::string_view flags_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kFlags = {{
      {"schedule.max_lr", "--lr"},
      {"schedule.min_lr", "--min-lr"},
      {"schedule.warmup_init_lr", "--lr-warmup-init"},
      {"schedule.warmup_samples", "the warm-up in samples"},
      {"schedule.decay_samples", "the decay of the learning rate in samples"},
      {"schedule.decay_style", "--lr-decay-style"},
      {"schedule.start_weight_decay", "the first weight decay"},
      {"schedule.end_weight_decay", "the last weight decay"},
      {"schedule.weight_decay_samples", "the growth of the weight decay in samples"},
      {"schedule.weight_decay_style", "--weight-decay-incr-style"},
  }};
  const auto found =
      std::ranges::find(kFlags, key, &std::pair<std::string_view, std::string_view>::first);
  return found == kFlags.end() ? key : found->second;
}

// "--lr is 0.1 (0.2 in the checkpoint)" for every field that differs.
std::vector<std::string> schedule_differences(const ParameterSchedule& asked,
                                              const Manifest& manifest) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : schedule_arguments(asked)) {
    if (!matters(key, asked) || stored(manifest, key) == value) continue;
    differences.push_back(fmt::format("{} is {} ({} in the checkpoint)", flags_of(key), value,
                                      stored(manifest, key)));
  }
  return differences;
}

}  // namespace

std::map<std::string, std::string> schedule_arguments(const ParameterSchedule& s) {
  return {{"schedule.max_lr", exact(s.max_lr)},
          {"schedule.min_lr", exact(s.min_lr)},
          {"schedule.warmup_init_lr", exact(s.warmup_init_lr)},
          {"schedule.warmup_samples", samples_text(s.warmup_samples)},
          {"schedule.decay_samples", std::to_string(s.decay_samples)},
          {"schedule.decay_style", std::string(name_of(s.decay_style))},
          {"schedule.start_weight_decay", exact(s.start_weight_decay)},
          {"schedule.end_weight_decay", exact(s.end_weight_decay)},
          {"schedule.weight_decay_samples", std::to_string(s.weight_decay_samples)},
          {"schedule.weight_decay_style", std::string(name_of(s.weight_decay_style))}};
}

bool is_allowed_to_change(const RunConfig& run, std::string_view flag) {
  const auto is_it = [&](const std::string& name) {
    const TrainFlag* named = find_train_flag(name);
    return named != nullptr && named->spec.name == flag;
  };
  return std::ranges::any_of(run.allow_changed, is_it);
}

ParameterSchedule check_resume(const TrainConfig& config, const Manifest& manifest) {
  const ParameterSchedule asked = parameter_schedule(config);
  Faults faults;
  check_flags(config, manifest, faults);
  // A new run and an imported model have no schedule to continue.
  const bool has_schedule = !config.run.finetune && manifest.iteration > 0;
  const bool keeps_schedule = has_schedule && config.optimizer.use_checkpoint_opt_param_scheduler;
  if (has_schedule && !config.optimizer.override_opt_param_scheduler) {
    const auto differences = schedule_differences(asked, manifest);
    if (keeps_schedule) {
      for (const auto& difference : differences) {
        log_info("the checkpoint's counts: {}", difference);
      }
    } else if (!differences.empty()) {
      faults.add(
          fmt::format("{}: give --override-opt_param-scheduler to use the flags' schedules or "
                      "--use-checkpoint-opt_param-scheduler to keep the checkpoint's",
                      fmt::join(differences, ", ")));
    }
  }
  faults.raise();
  return keeps_schedule ? stored_schedule(manifest) : asked;
}

std::string resumed_precision(const TrainConfig& config, const Manifest& manifest) {
  const std::string& asked = config.model.matmul_precision;
  const std::string& then = manifest.matmul_precision;
  if (!config.model.bf16 || config.run.finetune || then == "auto" || asked == then) return asked;
  const bool is_possible = cpu::has_products(then);
  if (asked == "auto" && is_possible) return then;
  const std::string difference =
      is_possible
          ? fmt::format(
                "--matmul-precision is {}, but the checkpoint of iteration {} was "
                "made with {}: other products make other bits",
                asked, manifest.iteration, then)
          : fmt::format(
                "the checkpoint of iteration {} was made with --matmul-precision "
                "{}, and this machine's target {} has {}: others make other bits",
                manifest.iteration, then, cpu::describe_active_target(), cpu::available_products());
  if (!is_allowed_to_change(config.run, "--matmul-precision")) {
    throw ConfigError(
        "{}; give {}--finetune to start a new run from its weights, or "
        "--allow-changed matmul-precision",
        difference, is_possible ? "the same value, " : "");
  }
  log_warning("{}", difference);
  return asked;
}

}  // namespace phalanx
