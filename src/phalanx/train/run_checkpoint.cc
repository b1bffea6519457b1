#include "phalanx/train/run_checkpoint.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of optimizer tensors
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

// Flags that make another model or other bits.
constexpr std::array<std::string_view, 17> kFixedFlags = {"--num-layers",
                                                          "--hidden-size",
                                                          "--ffn-hidden-size",
                                                          "--num-attention-heads",
                                                          "--kv-channels",
                                                          "--num-query-groups",
                                                          "--max-position-embeddings",
                                                          "--norm-epsilon",
                                                          "--untie-embeddings-and-output-weights",
                                                          "--no-bias-gelu-fusion",
                                                          "--seq-length",
                                                          "--bf16",
                                                          "--fp16",
                                                          "--seed",
                                                          "--data-order",
                                                          "--tokenizer-type",
                                                          "--split"};

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

void check_flags(const TrainConfig& config, const Manifest& manifest) {
  for (const auto& [flag, value] : config.run.arguments) {
    bool fixed = false;
    for (const auto name : kFixedFlags) fixed = fixed || name == flag;
    const auto found = manifest.arguments.find(flag);
    if (!fixed || found == manifest.arguments.end() || found->second == value) continue;
    throw ConfigError(
        "{} is {}, but the checkpoint of iteration {} was made with {}: give the same value, or "
        "--finetune to start a new run from its weights",
        flag, value, manifest.iteration, found->second);
  }
}

void load_weights(const CheckpointReader& reader, const Rank& rank) {
  const nn::ParamTable& table = rank.table();
  for (ParamId id = 0; id < table.size(); ++id) {
    reader.read(global_tensor(table[id], rank.parameters().weight(id)), DTypeMatch::kConvert);
  }
}

// The parts of main parameters and moments that this rank updates.
void load_states(const CheckpointReader& reader, const Rank& rank, bool with_optimizer) {
  const ParameterStore& parameters = rank.parameters();
  for (const Segment& segment : parameters.segments()) {
    const ParamSpec& spec = parameters.table()[segment.id];
    const auto read = [&](const Tensor& tensor, std::string_view prefix, DTypeMatch match) {
      reader.read(shard_tensor(spec, tensor, segment.begin, prefix), match);
    };
    if (parameters.has_main_parameters()) {
      // Without the optimizer's copy the main parameters start from the rounded ones.
      read(parameters.main(segment), with_optimizer ? kMainParamPrefix : std::string_view(),
           with_optimizer ? DTypeMatch::kExact : DTypeMatch::kConvert);
    }
    if (!with_optimizer) continue;
    read(rank.optimizer().exp_avg(segment), kExpAvgPrefix, DTypeMatch::kExact);
    read(rank.optimizer().exp_avg_sq(segment), kExpAvgSqPrefix, DTypeMatch::kExact);
  }
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

std::shared_ptr<const CheckpointReader> open_checkpoint(const TrainConfig& config) {
  if (config.run.load.empty()) return nullptr;
  // What is not read is not verified.
  const Verify verify =
      config.run.finetune || config.run.no_load_optim ? Verify::kWeights : Verify::kYes;
  if (config.run.ckpt_step > 0) {
    return std::make_shared<const CheckpointReader>(
        directory_of_iteration(config.run.load, config.run.ckpt_step), verify);
  }
  auto reader = CheckpointReader::open_if_any(config.run.load, verify);
  if (reader) return std::make_shared<const CheckpointReader>(std::move(*reader));
  if (config.run.exit_on_missing_checkpoint) {
    throw InputMissingError("--load {}: there is no checkpoint (--exit-on-missing-checkpoint)",
                            config.run.load);
  }
  log_warning("{}", no_checkpoint_message(config.run.load));
  return nullptr;
}

RunPosition position_of(const Manifest& manifest) {
  return {.iteration = manifest.iteration,
          .consumed_train_samples = manifest.consumed_train_samples,
          .consumed_valid_samples = manifest.consumed_valid_samples,
          .evaluation_is_due = manifest.arguments.contains(std::string(kDueEvaluation))};
}

ParameterSchedule check_resume(const TrainConfig& config, const Manifest& manifest) {
  const ParameterSchedule asked = parameter_schedule(config);
  if (config.run.finetune) return asked;
  check_flags(config, manifest);
  if (manifest.threads_per_rank > 0 &&
      manifest.threads_per_rank != config.layout.threads_per_rank &&
      !config.run.allow_different_threads) {
    throw ConfigError(
        "the checkpoint was made with --threads-per-rank {}, this run has {}: other threads make "
        "other bits. Give --threads-per-rank {} or --allow-different-threads",
        manifest.threads_per_rank, config.layout.threads_per_rank, manifest.threads_per_rank);
  }
  // An imported model has no schedule to continue.
  if (manifest.iteration == 0 || config.optimizer.override_opt_param_scheduler) return asked;
  if (config.optimizer.use_checkpoint_opt_param_scheduler) return stored_schedule(manifest);
  for (const auto& [key, value] : schedule_arguments(asked)) {
    if (!matters(key, asked) || stored(manifest, key) == value) continue;
    throw ConfigError(
        "{} is {} by the flags and {} in the checkpoint: give --override-opt_param-scheduler to "
        "use the flags' value or --use-checkpoint-opt_param-scheduler to keep the checkpoint's",
        key, value, stored(manifest, key));
  }
  return asked;
}

std::string resumed_precision(const TrainConfig& config, const Manifest& manifest) {
  if (!config.model.bf16 || config.run.finetune || manifest.matmul_precision == "auto") {
    return config.model.matmul_precision;
  }
  if (config.model.matmul_precision != "auto" &&
      config.model.matmul_precision != manifest.matmul_precision) {
    log_warning("--matmul-precision {} instead of the checkpoint's {}: the bits of the run change",
                config.model.matmul_precision, manifest.matmul_precision);
    return config.model.matmul_precision;
  }
  return manifest.matmul_precision;
}

RunState load_run(const TrainConfig& config, const CheckpointReader& reader, Rank& rank) {
  const Manifest& manifest = reader.manifest();
  const bool speaks = rank.ranks().world->rank() == 0;
  if (speaks) {
    log_info(" loading checkpoint from {} at iteration {}", config.run.load, manifest.iteration);
  }
  const bool with_optimizer =
      reader.has_optimizer() && !config.run.finetune && !config.run.no_load_optim;
  rank.initialise_gradients();
  // A checkpoint has no padding: what it does not fill is zero because it is made so here.
  rank.parameters().clear(rank.context());
  rank.initialise_optimizer();
  load_weights(reader, rank);
  load_states(reader, rank, with_optimizer);
  if (speaks) {
    log_info("  successfully loaded checkpoint from {} at iteration {}", config.run.load,
             manifest.iteration);
  }
  RunState state;
  state.loss_scaler = loss_scaler(config).state();
  if (config.run.finetune) return state;
  static_cast<RunPosition&>(state) = position_of(manifest);
  state.requested = {.train = manifest.requested_samples.train,
                     .valid = manifest.requested_samples.valid,
                     .test = manifest.requested_samples.test};
  if (!config.run.no_load_optim) {
    state.schedule_samples = manifest.optimizer.schedule_steps;
    state.adam_step = manifest.optimizer.adam_step;
    state.loss_scaler = {.scale = manifest.optimizer.loss_scale,
                         .clean_steps = manifest.optimizer.clean_steps,
                         .hysteresis = manifest.optimizer.hysteresis};
  }
  return state;
}

}  // namespace phalanx
