#include "phalanx/flag_table/deepspeed/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/flag_table/deepspeed/json_text.h"
#include "phalanx/flag_table/deepspeed/keys.h"
#include "phalanx/flag_table/deepspeed/settings.h"
#include "phalanx/flag_table/reasons.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace deepspeed {
namespace {

constexpr std::string_view kTrainBatch = "train_batch_size";
constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
constexpr std::string_view kAccumulation = "gradient_accumulation_steps";
constexpr double kMostSamples = 2147483647.0;

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// What keys mean together, whatever the other flags are.

void read_optimizer(Settings& s) {
  constexpr std::string_view kType = "optimizer.type";
  constexpr std::string_view kBetas = "optimizer.params.betas";
  const std::string type = lower_case(s.text(kType));
  if (type == "adam" || type == "adamw") s.give(kType, "--optimizer", "adam");
  if (type == "sgd") s.give(kType, "--optimizer", "sgd");
  if (s.has(kType) && type != "adam" && type != "adamw" && type != "sgd") {
    s.refuse(kType, "there are Adam, AdamW and SGD: give one of them");
  }
  if (s.has(kBetas)) {
    const auto& betas = s.waiting().find(kBetas)->second;
    s.give(kBetas, "--adam-beta1", betas[0]);
    s.give(kBetas, "--adam-beta2", betas[1]);
  }
}

// The schedules that Phalanx has, too, and the parameters of each.
struct Schedule {
  std::string_view type;
  std::string_view style;
  std::string_view parameters;
};
constexpr std::array kSchedules = {
    Schedule{"WarmupLR", "constant", "warmup_type warmup_num_steps warmup_max_lr warmup_min_lr"},
    Schedule{"WarmupDecayLR", "linear",
             "warmup_type warmup_num_steps warmup_max_lr warmup_min_lr total_num_steps"},
    Schedule{"WarmupCosineLR", "cosine",
             "warmup_type warmup_num_steps total_num_steps warmup_min_ratio cos_min_ratio"},
};

void check_warmup(Settings& s) {
  constexpr std::string_view kWarmup = "scheduler.params.warmup_type";
  constexpr std::string_view kLinear =
      "Phalanx warms up linearly: give \"warmup_type\": \"linear\"";
  if (!s.has(kWarmup)) {
    s.flags().faults.push_back(fmt::format(
        "{} is left out: DeepSpeed then warms up logarithmically; {}", s.place(kWarmup), kLinear));
  } else if (s.text(kWarmup) != "linear") {
    s.refuse(kWarmup, kLinear);
  }
}

void read_schedule(Settings& s) {
  constexpr std::string_view kType = "scheduler.type";
  constexpr std::string_view kParameters = "scheduler.params.";
  const std::string type = s.text(kType);
  const auto schedule = std::ranges::find(kSchedules, type, &Schedule::type);
  if (s.has(kType) && schedule == kSchedules.end()) {
    s.refuse(kType,
             "there are WarmupLR, WarmupDecayLR and WarmupCosineLR; for other schedules leave the "
             "scheduler out and give --lr-decay-style");
    return;
  }
  for (const auto& [path, words] : s.waiting()) {
    if (!path.starts_with(kParameters)) continue;
    if (!s.has(kType)) {
      s.refuse(path, "nothing says of which schedule: give scheduler.type");
      continue;
    }
    const auto known = words_of(schedule->parameters);
    if (std::ranges::find(known, path.substr(kParameters.size())) == known.end()) {
      s.refuse(path, fmt::format("{} has no such parameter: leave it out", type));
    }
  }
  if (!s.has(kType)) return;
  check_warmup(s);
  s.give(kType, "--lr-decay-style", std::string(schedule->style));
  const auto give = [&](std::string_view name, std::string_view flag) {
    const std::string path = fmt::format("{}{}", kParameters, name);
    if (s.has(path)) s.give(path, flag);
  };
  give("warmup_num_steps", "--lr-warmup-iters");
  give("total_num_steps", "--lr-decay-iters");
  give("warmup_max_lr", "--lr");
  give("warmup_min_lr", "--lr-warmup-init");
  if (schedule->style == "linear") give("warmup_min_lr", "--min-lr");
}

// The optimizer's rate; a rate of the schedule would replace it.
void read_learning_rate(Settings& s) {
  constexpr std::string_view kRate = "optimizer.params.lr";
  constexpr std::string_view kScheduled = "scheduler.params.warmup_max_lr";
  if (!s.has(kRate)) return;
  if (!s.has(kScheduled)) {
    s.give(kRate, "--lr");
  } else if (s.text(kRate) != s.text(kScheduled)) {
    s.note(kRate, fmt::format("{} {} counts in its place", kScheduled, s.text(kScheduled)));
  }
}

void read_buckets(Settings& s) {
  constexpr std::string_view kReduce = "zero_optimization.reduce_bucket_size";
  constexpr std::string_view kGather = "zero_optimization.allgather_bucket_size";
  if (s.has(kReduce) && s.has(kGather) && s.text(kReduce) != s.text(kGather)) {
    s.refuse(kGather, fmt::format("{} is {}, and reductions and gathers have buckets of one size: "
                                  "give both keys the same",
                                  kReduce, s.text(kReduce)));
    return;
  }
  const std::string_view given = s.has(kReduce) ? kReduce : kGather;
  if (s.has(given)) s.give(given, "--ddp-bucket-size");
}

void read_offload(Settings& s, const std::string& section, std::string_view flag,
                  std::string_view in_memory) {
  const std::string device_key = section + ".device";
  const std::string path_key = section + ".nvme_path";
  const std::string device = s.text(device_key);
  if (device == "nvme") {
    if (s.has(path_key) && !s.text(path_key).empty()) {
      s.give(path_key, flag);
    } else {
      s.refuse(device_key, fmt::format("needs {}, a directory of a fast disk", path_key));
    }
  } else if (device == "cpu") {
    s.note(device_key, in_memory);
  } else if (s.has(device_key) && device != "none") {
    s.refuse(device_key, "give none, cpu or nvme");
  }
}

void read_offloads(Settings& s) {
  read_offload(s, "zero_optimization.offload_optimizer", "--offload-optimizer-to",
               kStatesInHostMemory);
  read_offload(s, "zero_optimization.offload_param", "--offload-parameters-to", kInHostMemory);
  constexpr std::string_view kRatio = "zero_optimization.offload_optimizer.ratio";
  const bool to_files = s.text("zero_optimization.offload_optimizer.device") == "nvme";
  if (!s.has(kRatio)) return;
  if (to_files) {
    s.give(kRatio, "--offload-fraction");
  } else {
    s.note(kRatio, "no state lies in a file");
  }
}

void read_logging(Settings& s) {
  constexpr std::string_view kTimes = "wall_clock_breakdown";
  if (s.is_on(kTimes)) s.give(kTimes, "--timing-log-level", "1");
  constexpr std::string_view kEnabled = "tensorboard.enabled";
  constexpr std::string_view kPath = "tensorboard.output_path";
  constexpr std::string_view kJob = "tensorboard.job_name";
  if (!s.is_on(kEnabled)) return;
  if (s.text(kPath).empty()) {
    s.refuse(kEnabled, fmt::format("needs {}, a directory", kPath));
    return;
  }
  std::string directory = s.text(kPath);
  if (!s.text(kJob).empty()) {
    directory += (directory.ends_with('/') ? "" : "/") + s.text(kJob);
  }
  s.give(kPath, "--tensorboard-dir", directory);
}

class DeepspeedConfig : public SettingsFile {
 public:
  explicit DeepspeedConfig(const TrainConfig& config) : config_(config) {}

  FileFlags read(const std::string& path) override;
  FileFlags settle(const FlagSet& flags) override;

 private:
  bool holds(std::string_view condition) const;
  void settle_conditions(const FlagSet& flags);
  void settle_loss_scale(const FlagSet& flags);
  void settle_smallest_rates(const FlagSet& flags);
  void settle_groups();
  void settle_batches(const FlagSet& flags);

  const TrainConfig& config_;
  std::optional<Settings> settings_;
};

FileFlags DeepspeedConfig::read(const std::string& path) {
  Settings& s = settings_.emplace(path, read_settings(path));
  read_optimizer(s);
  read_schedule(s);
  read_learning_rate(s);
  read_buckets(s);
  read_offloads(s);
  read_logging(s);
  return s.take();
}

FileFlags DeepspeedConfig::settle(const FlagSet& flags) {
  settle_conditions(flags);
  settle_loss_scale(flags);
  settle_smallest_rates(flags);
  const LayoutConfig& layout = config_.layout;
  const std::int64_t copy = ranks_of_model(layout);
  // Otherwise the number of ranks is wrong, which is reported.
  if (copy > 0 && layout.world_size >= copy && layout.world_size % copy == 0) {
    settle_groups();
    settle_batches(flags);
  }
  return settings_->take();
}

bool DeepspeedConfig::holds(std::string_view condition) const {
  const LayoutConfig& l = config_.layout;
  if (condition == "--fp16") return config_.model.fp16;
  if (condition == "--zero-stage 3") {
    return zero_stage(l) == 3 || !l.offload_parameters_to.empty();
  }
  if (condition == "--recompute-granularity full") return l.recompute_granularity == "full";
  PHALANX_CHECK(condition == "--offload-optimizer-to", "no condition {}", condition);
  return !l.offload_optimizer_to.empty() || !l.offload_parameters_to.empty() ||
         !l.offload_activations_to.empty();
}

// Keys that DeepSpeed reads only together with others.
void DeepspeedConfig::settle_conditions(const FlagSet& flags) {
  Settings& s = *settings_;
  const LayoutConfig& l = config_.layout;
  for (const auto& [path, words] : s.waiting()) {
    const Key& key = *find_key(path);
    if (key.when.empty()) continue;
    const bool is_switched_off = words.front() == "false";
    if (!holds(key.when)) {
      if (!is_switched_off) {
        s.note(path, fmt::format("nothing depends on it without {}", key.when));
      }
    } else if ((key.fate == Fate::kFlag && key.when != "--fp16") ||
               (key.flag == "--zero-prefetch-depth" && words.front() == "0")) {
      s.give(path, key.flag);
    } else if (key.flag == "--distribute-saved-activations" && !is_switched_off) {
      if (l.tensor_model_parallel_size > 1 && !l.sequence_parallel) {
        s.give(path, key.flag);
      } else if (!flags.given(key.flag)) {
        s.note(path, "tensor-parallel ranks have no saved activations in common");
      }
    }
  }
}

// A constant loss scale, or how it changes.
void DeepspeedConfig::settle_loss_scale(const FlagSet& flags) {
  Settings& s = *settings_;
  if (!config_.model.fp16) return;
  constexpr std::string_view kScale = "fp16.loss_scale";
  constexpr std::string_view kPower = "fp16.initial_scale_power";
  const bool is_constant = s.number(kScale).value_or(0.0) != 0.0;
  if (is_constant) s.give(kScale, "--loss-scale");
  if (is_constant || flags.given("--loss-scale")) return;
  if (const auto power = s.number(kPower)) {
    if (std::abs(*power) > 1000.0) {
      s.refuse(kPower, "2 to that power is no number: give from -1000 to 1000");
    } else {
      s.give(kPower, "--initial-loss-scale", fmt::format("{}", std::exp2(*power)));
    }
  }
  for (const auto& [path, words] : s.waiting()) {
    const Key& key = *find_key(path);
    if (key.when == "--fp16" && key.fate == Fate::kFlag) s.give(path, key.flag);
  }
}

// The schedule's rates are shares of the largest one.
void DeepspeedConfig::settle_smallest_rates(const FlagSet& flags) {
  Settings& s = *settings_;
  if (s.text("scheduler.type") != "WarmupCosineLR" || !flags.given("--lr")) return;
  for (const auto& [path, flag] :
       {std::pair{"scheduler.params.warmup_min_ratio", "--lr-warmup-init"},
        {"scheduler.params.cos_min_ratio", "--min-lr"}}) {
    const auto ratio = s.number(path);
    if (ratio) s.give(path, flag, fmt::format("{}", *ratio * config_.optimizer.lr.value_or(0.0)));
  }
}

void DeepspeedConfig::settle_groups() {
  Settings& s = *settings_;
  constexpr std::string_view kGroup = "zero_optimization.mics_shard_size";
  if (!s.has(kGroup) || s.text(kGroup) == "-1") return;
  const std::int64_t data = data_parallel_size(config_.layout);
  const double size = *s.number(kGroup);
  if (size < 1.0 || size > static_cast<double>(data) ||
      data % static_cast<std::int64_t>(size) != 0) {
    s.refuse(kGroup,
             fmt::format("groups of so many do not share out the {} data-parallel ranks", data));
    return;
  }
  s.give(kGroup, "--num-distributed-optimizer-instances",
         std::to_string(data / static_cast<std::int64_t>(size)));
}

void DeepspeedConfig::settle_batches(const FlagSet& flags) {
  Settings& s = *settings_;
  const LayoutConfig& l = config_.layout;
  const std::int64_t data = data_parallel_size(l);
  const bool has_train = flags.given("--global-batch-size");
  const bool has_micro = flags.given("--micro-batch-size");
  const bool is_train_here = flags.source("--global-batch-size") == s.place(kTrainBatch);
  const bool is_micro_here = flags.source("--micro-batch-size") == s.place(kMicroBatch);
  if (!s.has(kAccumulation)) {
    if (!is_train_here || has_micro) return;
    // DeepSpeed then accumulates nothing.
    if (l.global_batch_size % data != 0) {
      s.flags().faults.push_back(
          fmt::format("{} {} is not a multiple of the {} data-parallel ranks: give {} too",
                      s.place(kTrainBatch), l.global_batch_size, data, kMicroBatch));
      return;
    }
    s.give(kTrainBatch, "--micro-batch-size", std::to_string(l.global_batch_size / data));
    return;
  }
  const double steps = *s.number(kAccumulation);
  if (steps < 1.0 || steps > kMostSamples) {
    s.refuse(kAccumulation, "must be at least 1");
    return;
  }
  if (!has_train && !has_micro) {
    s.refuse(kAccumulation, fmt::format("needs {} or {}", kMicroBatch, kTrainBatch));
    return;
  }
  const double together = steps * static_cast<double>(data);
  const auto count = [](double number) {
    return std::to_string(static_cast<std::int64_t>(number));
  };
  if (!has_train) {
    const double batch = together * static_cast<double>(l.micro_batch_size);
    if (batch > kMostSamples) {
      s.refuse(kAccumulation, fmt::format("{} samples are too large a batch", batch));
      return;
    }
    s.give(kAccumulation, "--global-batch-size", count(batch));
    return;
  }
  const auto train = static_cast<double>(l.global_batch_size);
  if (!has_micro) {
    if (std::fmod(train, together) != 0.0) {
      s.refuse(kAccumulation,
               fmt::format("{} {} is not a multiple of these x {} data-parallel ranks",
                           is_train_here ? kTrainBatch : "--global-batch-size", l.global_batch_size,
                           data));
      return;
    }
    s.give(kAccumulation, "--micro-batch-size", count(train / together));
    return;
  }
  if (together * static_cast<double>(l.micro_batch_size) == train) return;
  if (is_train_here && is_micro_here) {
    s.refuse(kAccumulation,
             fmt::format("x {} {} x {} data-parallel ranks are {}, and {} is {}: make them agree, "
                         "or leave one out",
                         kMicroBatch, l.micro_batch_size, data,
                         count(together * static_cast<double>(l.micro_batch_size)), kTrainBatch,
                         l.global_batch_size));
    return;
  }
  s.note(kAccumulation, fmt::format("gives way to --global-batch-size {} and --micro-batch-size {}",
                                    l.global_batch_size, l.micro_batch_size));
}

}  // namespace
}  // namespace deepspeed

void add_deepspeed_config(FlagSet& flags, const TrainConfig& config) {
  flags.add_settings({.name = "--deepspeed-config",
                      .help = "Flags from a DeepSpeed file, ds_config.json: docs/deepspeed.md says "
                              "what becomes of its keys",
                      .value_name = "FILE"},
                     std::make_shared<deepspeed::DeepspeedConfig>(config));
}

}  // namespace phalanx
