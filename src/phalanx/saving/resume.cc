#include "phalanx/saving/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/saving/stored_schedule.h"
#include "phalanx/saving/upcycling.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/expert_views.h"
#include "phalanx/settings/faults.h"
#include "phalanx/settings/run_length.h"
#include "phalanx/settings/schedule_flags.h"

namespace phalanx {
namespace {

std::string or_none(const std::string& value) { return value.empty() ? "not given" : value; }

// Flags without a value of their own: where they are not given, others decide, which are compared.
// The order of sums has a note instead.
constexpr std::array<std::string_view, 9> kDecidedByOthers = {
    "--ffn-hidden-size",       "--kv-channels",       "--num-query-groups",
    "--decoder-num-layers",    "--global-batch-size", "--moe-ffn-hidden-size",
    "--window-attn-skip-freq", "--train-iters",       "--sum-block-size"};

// What programs did that had the flag not yet: what the flag's default does.
std::optional<std::string> value_before(const TrainFlag& flag, const TrainConfig& config,
                                        const Manifest& manifest) {
  const FlagSpec& spec = flag.spec;
  // An imported model names what its weights need, and leaves the rest open.
  const bool is_import = manifest.start == 0 && manifest.iteration == 0;
  // The schedules are compared as a whole.
  if (is_import || spec.resume == ResumeClass::kSchedule) return std::nullopt;
  if (spec.required || spec.required_to_train || !spec.required_unless.empty()) return std::nullopt;
  if (std::ranges::find(kDecidedByOthers, spec.name) != kDecidedByOthers.end()) return std::nullopt;
  const auto is_on = [&](const char* name) {
    const auto found = manifest.arguments.find(name);
    return found != manifest.arguments.end() && found->second == "true";
  };
  // --swiglu is older than these two.
  if (spec.name == "--activation-func" && is_on("--swiglu")) return "silu";
  if (spec.name == "--gated-linear-unit" && is_on("--swiglu")) return "true";
  for (const ModelFamily::Default& own : family_of(config).defaults()) {
    if (own.flag == spec.name) return std::string(own.value);
  }
  TrainConfig defaults;
  return text_of(flag.target(defaults));
}

// One flag of a run and of the checkpoint from which it resumes.
struct ComparedFlag {
  const FlagSpec& spec;
  FlagType type = FlagType::kText;
  std::string now;
  std::optional<std::string> before;  // what an older checkpoint, which lacks it, was made with
};

void compare(const ComparedFlag& flag, const TrainConfig& config, const Manifest& manifest,
             Faults& faults) {
  const FlagSpec& spec = flag.spec;
  const auto found = manifest.arguments.find(std::string(spec.name));
  const bool is_older = found == manifest.arguments.end();
  if (is_older && !flag.before) return;
  const std::string now = canonical_value(flag.type, flag.now);
  const std::string then = canonical_value(flag.type, is_older ? *flag.before : found->second);
  if (now == then) return;
  const std::string difference =
      fmt::format("the checkpoint of iteration {} was made {}{}", manifest.iteration,
                  is_older ? "by a program without this flag, as " : "",
                  then.empty() ? "without it" : "with " + then);
  const bool is_refused = spec.resume == ResumeClass::kFixed || spec.resume == ResumeClass::kShape;
  // Schedules are compared as a whole, unless the flags' schedule is wanted.
  const bool is_said =
      spec.resume == ResumeClass::kWarned ||
      (spec.resume == ResumeClass::kSchedule && config.optimizer.override_opt_param_scheduler);
  if (is_refused && !is_allowed_to_change(config.run, spec.name)) {
    const std::string_view advice =
        spec.resume == ResumeClass::kShape
            ? "the same value (--use-checkpoint-args takes it from the checkpoint)"
            : "the same value, --finetune to start a new run from its weights";
    faults.add(fmt::format("{} is {}, but {}: give {}, or --allow-changed {}", spec.name,
                           or_none(now), difference, advice, spec.name.substr(2)));
  } else if (is_refused || is_said) {
    log_warning("{} is {}, {}", spec.name, or_none(now), difference);
  }
}

// The flags whose values differ from the checkpoint's, by their class. A new run from the weights
// (--finetune) is compared only in what its weights need.
void check_flags(const TrainConfig& config, const Manifest& manifest, Faults& faults) {
  if (!config.run.finetune) faults.hold([&] { check_family(config, manifest.arguments); });
  const auto tokenizer = manifest.arguments.find("--tokenizer-type");
  const bool is_other_tokenizer =
      tokenizer != manifest.arguments.end() && tokenizer->second != config.tokenizer.tokenizer_type;
  TrainConfig values = config;  // flags are bound to variables; these are only read
  for (const TrainFlag& flag : train_flags()) {
    const ResumeClass resume = flag.spec.resume;
    if (flag.target == nullptr || resume == ResumeClass::kFree) continue;
    if (resume == ResumeClass::kState) continue;  // check_optimizer_state() compares it
    if (config.run.finetune && resume != ResumeClass::kShape) continue;
    if (upcycles(config.run) && Upcycling::changes(flag.spec.name)) continue;
    // Another type of tokenizer is one fault; its other flags are not compared.
    if (is_other_tokenizer && describes_tokenizer(flag) && flag.spec.name != "--tokenizer-type") {
      continue;
    }
    // Without a table of positions their number is in no weight.
    if (flag.spec.name == "--max-position-embeddings" &&
        config.model.position_embedding_type != "learned_absolute") {
      continue;
    }
    const FlagTarget target = flag.target(values);
    compare({.spec = flag.spec,
             .type = type_of(target, flag.spec.type),
             .now = text_of(target),
             .before = value_before(flag, config, manifest)},
            config, manifest, faults);
  }
}

// Checkpoints without a block size are of programs that added all ranks from left to right.
void note_sum_order(const TrainConfig& config, const Manifest& manifest) {
  const LayoutConfig& layout = config.layout;
  const bool is_older = !manifest.arguments.contains("--sum-block-size");
  const bool goes_on = manifest.iteration > 0 && !config.run.finetune;
  if (!is_older || !goes_on || layout.world_size <= layout.sum_block_size) return;
  log_warning(
      "the checkpoint of iteration {} was made by a program that added any number of ranks from "
      "left to right; this run adds them in blocks of {} (--sum-block-size), so sums over more "
      "ranks round differently: --sum-block-size {} adds as before",
      manifest.iteration, layout.sum_block_size, layout.world_size);
}

// What an optimizer keeps, in words.
std::string kept_by(std::string_view optimizer, bool has_momentum) {
  if (optimizer != "sgd") return std::string(optimizer);
  return has_momentum ? "sgd with momentum" : "sgd without momentum";
}

// Refuses to resume with the state of another optimizer, or without the state of its own.
void check_optimizer_state(const TrainConfig& config, const Manifest& manifest, Faults& faults) {
  const bool is_left = config.run.finetune || config.run.no_load_optim;
  // An imported model has no state.
  if (is_left || manifest.iteration == 0) return;
  const auto argument = [&](const char* flag, const char* before) {
    const auto found = manifest.arguments.find(flag);
    return found == manifest.arguments.end() ? std::string(before) : found->second;
  };
  // Older checkpoints leave this out: there was only one value.
  const std::string momentum = canonical_value(FlagType::kReal, argument("--sgd-momentum", "0.9"));
  const std::string then = kept_by(argument("--optimizer", "adam"), momentum != "0");
  const std::string now = kept_by(config.optimizer.optimizer, config.optimizer.sgd_momentum > 0.0);
  if (now == then) return;
  faults.add(
      fmt::format("the optimizer is {}, but the checkpoint of iteration {} was made with {}, which "
                  "keeps something else: give --optimizer and --sgd-momentum as they were, or "
                  "--no-load-optim to begin the optimizer and the schedules anew",
                  now, manifest.iteration, then));
}

// The flags' schedules count every iteration by this run's batches. Earlier ones may have had
// others.
void note_other_batches(const TrainConfig& config, const Manifest& manifest,
                        const ParameterSchedule& asked) {
  const bool is_constant = asked.decay_style == DecayStyle::kConstant &&
                           asked.weight_decay_style == WeightDecayStyle::kConstant;
  if (config.run.train_iters <= manifest.iteration || is_constant) return;
  const RunLength length(config, {.iteration = manifest.iteration,
                                  .consumed_train_samples = manifest.consumed_train_samples});
  const std::int64_t end = length.needed().train;
  if (end == asked.weight_decay_samples) return;
  log_warning(
      "the schedules take {} iterations for {} samples, as many as this run's batches make; but "
      "until iteration {} batches were others, and the run ends after {} samples: "
      "--lr-decay-iters {} is a decay that ends with it",
      config.run.train_iters, asked.weight_decay_samples, manifest.iteration, end,
      length.batches().iterations_for(end));
}

}  // namespace

bool is_allowed_to_change(const RunConfig& run, std::string_view flag) {
  const auto is_it = [&](const std::string& name) {
    const TrainFlag* named = find_train_flag(name);
    return named != nullptr && named->spec.name == flag;
  };
  return std::ranges::any_of(run.allow_changed, is_it);
}

ParameterSchedule check_resume(const TrainConfig& config, const Manifest& manifest) {
  Faults faults;
  check_flags(config, manifest, faults);
  note_sum_order(config, manifest);
  check_optimizer_state(config, manifest, faults);
  // A new run and an imported model have no schedule to continue.
  const bool has_schedule = !config.run.finetune && manifest.iteration > 0;
  const bool keeps_schedule = has_schedule && config.optimizer.use_checkpoint_opt_param_scheduler;
  // Without the optimizer's state the flags' schedules begin anew.
  const bool is_anew = config.run.no_load_optim && !keeps_schedule;
  const ParameterSchedule asked =
      parameter_schedule(config, has_schedule && is_anew ? manifest.consumed_train_samples : 0);
  if (has_schedule && !is_anew && config.optimizer.override_opt_param_scheduler) {
    note_other_batches(config, manifest, asked);
  } else if (has_schedule && !is_anew) {
    const auto differences = schedule_differences(asked, manifest);
    if (keeps_schedule && !differences.empty()) {
      log_info("the checkpoint's schedules are kept:\n{}", to_table(differences));
    } else if (!differences.empty()) {
      faults.add(
          fmt::format("the schedules are not those of the checkpoint of iteration {}:\n{}\ngive "
                      "--override-opt_param-scheduler to use this run's or "
                      "--use-checkpoint-opt_param-scheduler to keep the checkpoint's",
                      manifest.iteration, to_table(differences)));
    }
  }
  faults.raise();
  return keeps_schedule ? stored_schedule(manifest) : asked;
}

void check_products(const TrainConfig& config, const Manifest& manifest,
                    std::string_view products) {
  const std::string& then = manifest.matmul_precision;
  if (config.run.finetune || then == "auto" || then == products) return;
  const std::string difference = fmt::format(
      "this run's products are {}, the checkpoint of iteration {} was made with {}: "
      "others make other bits",
      products, manifest.iteration, then);
  if (!is_allowed_to_change(config.run, "--matmul-precision")) {
    throw ConfigError(
        "{}; give --finetune to start a new run from its weights, or --allow-changed "
        "matmul-precision",
        difference);
  }
  log_warning("{}", difference);
}

std::string resumed_precision(const TrainConfig& config, const Manifest& manifest) {
  const std::string& asked = config.model.matmul_precision;
  const std::string& then = manifest.matmul_precision;
  if (then.starts_with("cuda-")) {
    check_products(config, manifest, "those of a processor");
    return asked;
  }
  if (!config.model.bf16 || config.run.finetune || then == "auto" || asked == then) return asked;
  const bool is_possible = cpu::has_products(then);
  if (asked == "auto" && is_possible) return then;
  // The order of sums that AMX had before `amx2`.
  const bool is_gone = then == "amx";
  const std::string difference =
      is_gone ? fmt::format(
                    "the checkpoint of iteration {} was made with products of family amx of a "
                    "program before 0.1.0; amx2 is in its place and makes other bits",
                    manifest.iteration)
      : is_possible
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
