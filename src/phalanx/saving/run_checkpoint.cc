#include "phalanx/saving/run_checkpoint.h"

#include <fmt/ranges.h>

#include <set>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of optimizer tensors
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/families/family.h"
#include "phalanx/saving/non_persistent.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// Whether the run begins with a part of another model's weights.
bool begins_with_part(const TrainConfig& config) {
  const RunConfig& run = config.run;
  return family_of(config).begins_with_part() && run.finetune &&
         !run.pretrained_checkpoint.empty() && run.load == run.pretrained_checkpoint;
}

std::set<std::string_view> tensor_names(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const Manifest::Entry& entry : manifest.tensors) names.insert(entry.name);
  return names;
}

// The parameters that the checkpoint does not have, where that is allowed: they stay as drawn.
std::set<std::string> absent_parameters(const CheckpointReader& reader,
                                        const nn::ParamTable& table) {
  const auto names = tensor_names(reader.manifest());
  std::set<std::string> absent;
  for (const ParamSpec& spec : table.specs()) {
    if (!names.contains(spec.name)) absent.insert(spec.name);
  }
  return absent;
}

using Absent = std::set<std::string>;

void load_weights(const CheckpointReader& reader, Rank& rank, const Absent& absent) {
  const nn::ParamTable& table = rank.table();
  const ParameterStore& parameters = rank.parameters();
  for (ParamId id = 0; id < table.size(); ++id) {
    if (absent.contains(table[id].name) || !parameters.weight(id)) continue;
    reader.read(global_tensor(table[id], parameters.weight(id)), DTypeMatch::kConvert);
  }
  rank.visit(parameters.accesses(true, true), [&](const auto& tile, auto tensors) {
    for (const Segment& segment : tile.segments) {
      const ParamSpec& spec = table[segment.id];
      if (absent.contains(spec.name) || parameters.weight(segment.id)) continue;
      reader.read(shard_tensor(spec, parameters.weight(segment, tensors), segment.begin),
                  DTypeMatch::kConvert);
    }
  });
}

// The parts of main parameters and optimizer states that this rank updates.
void load_states(const CheckpointReader& reader, Rank& rank, bool with_optimizer,
                 const Absent& absent) {
  const ParameterStore& parameters = rank.parameters();
  const auto read_each = [&](const TileAccess& access, std::string_view prefix, DTypeMatch match) {
    rank.visit({&access, 1}, [&](const auto& tile, auto tensors) {
      for (const Segment& segment : tile.segments) {
        const ParamSpec& spec = parameters.table()[segment.id];
        if (absent.contains(spec.name)) continue;
        const Tensor part = part_of(tensors[0], parameters.states(), segment);
        reader.read(shard_tensor(spec, part, segment.begin, prefix), match);
      }
    });
  };
  if (parameters.has_main_parameters()) {
    // Without main parameters in the checkpoint they start from the rounded weights.
    read_each(parameters.accesses(true, true)[0],
              with_optimizer ? kMainParamPrefix : std::string_view(),
              with_optimizer ? DTypeMatch::kExact : DTypeMatch::kConvert);
  }
  if (!with_optimizer) return;
  for (const auto name : rank.optimizer().state_names()) {
    read_each({.column = &rank.optimizer().state(name)}, state_prefix(name), DTypeMatch::kExact);
  }
}

std::int64_t left_out_samples(const Manifest& manifest) {
  const auto said = manifest.arguments.find(std::string(kLeftOutSamples));
  if (said == manifest.arguments.end()) return 0;
  const auto count = parse_number<std::int64_t>(said->second);
  if (!count || *count < 0) {
    throw DataError("the checkpoint's {} is not a count: {}", kLeftOutSamples, said->second);
  }
  return *count;
}

// Null where there is none, it is older than those that last, or it cannot be read.
std::shared_ptr<const CheckpointReader> open_non_persistent(const RunConfig& run, Verify verify) {
  const auto newest = newest_non_persistent(run, run.load);
  if (!newest) return nullptr;
  try {
    return std::make_shared<const CheckpointReader>(newest->directory, verify);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    log_warning("{}; the run begins with what --load {} has", error.what(), run.load);
    return nullptr;
  }
}

// Files that are not read are not verified.
Verify what_to_verify(const RunConfig& run) {
  return run.finetune || run.no_load_optim ? Verify::kWeights : Verify::kYes;
}

}  // namespace

bool begins_pretrained(const RunConfig& run) {
  if (run.pretrained_checkpoint.empty() || run.ckpt_step > 0) return false;
  return run.load.empty() || (!newest_non_persistent(run, run.load) &&
                              !CheckpointReader::open_if_any(run.load, Verify::kNo));
}

TrainConfig from_pretrained(TrainConfig config) {
  config.run.load = config.run.pretrained_checkpoint;
  config.run.finetune = true;
  config.run.exit_on_missing_checkpoint = true;
  return config;
}

std::shared_ptr<const CheckpointReader> open_checkpoint(const RunConfig& run) {
  if (run.load.empty()) return nullptr;
  const Verify verify = what_to_verify(run);
  if (run.ckpt_step > 0) {
    return std::make_shared<const CheckpointReader>(directory_of_iteration(run.load, run.ckpt_step),
                                                    verify);
  }
  if (auto newest = open_non_persistent(run, verify)) return newest;
  auto reader = CheckpointReader::open_if_any(run.load, verify);
  if (reader) return std::make_shared<const CheckpointReader>(std::move(*reader));
  if (run.exit_on_missing_checkpoint) {
    const bool is_pretrained = run.load == run.pretrained_checkpoint;
    throw InputMissingError("{} {}: there is no checkpoint{}",
                            is_pretrained ? "--pretrained-checkpoint" : "--load", run.load,
                            is_pretrained ? "" : " (--exit-on-missing-checkpoint)");
  }
  log_warning("{}", no_checkpoint_message(run.load));
  return nullptr;
}

std::shared_ptr<const CheckpointReader> open_checkpoint_at(const RunConfig& run,
                                                           const std::string& directory,
                                                           bool verified) {
  return std::make_shared<const CheckpointReader>(directory,
                                                  verified ? what_to_verify(run) : Verify::kNo);
}

RunPosition position_of(const Manifest& manifest) {
  return {.iteration = manifest.iteration,
          .consumed_train_samples = manifest.consumed_train_samples,
          .consumed_valid_samples = manifest.consumed_valid_samples,
          .evaluation_is_due = manifest.arguments.contains(std::string(kDueEvaluation))};
}

void check_tensors(const Model& model, const Manifest& manifest) {
  nn::ParamTable table;
  model.build_chunk(model.whole(), table);
  std::set<std::string_view> names;
  for (ParamId id = 0; id < table.size(); ++id) names.insert(table[id].name);
  for (const Manifest::Entry& entry : manifest.tensors) {
    if (entry.name.starts_with(kOptimizerPrefix) || names.contains(entry.name)) continue;
    throw ConfigError(
        "the checkpoint of iteration {} has the tensor {}, and this model has none of that name: "
        "give the flags of the checkpoint's model",
        manifest.iteration, entry.name);
  }
}

RunState load_run(const TrainConfig& config, const CheckpointReader& reader, Rank& rank) {
  const Manifest& manifest = reader.manifest();
  const bool speaks = rank.ranks().world->rank() == 0;
  if (speaks) {
    log_info(" loading checkpoint from {} at iteration {}", config.run.load, manifest.iteration);
  }
  const bool with_optimizer =
      reader.has_optimizer() && !config.run.finetune && !config.run.no_load_optim;
  Absent absent;
  if (begins_with_part(config)) {
    absent = absent_parameters(reader, rank.whole_table());
    rank.initialise();
    if (speaks && !absent.empty()) {
      log_warning("the checkpoint has no {}: these begin with random weights",
                  fmt::join(absent, ", "));
    }
  } else {
    rank.initialise_gradients();
    // A checkpoint has no padding: the padding is set to zero here.
    rank.parameters().clear(rank.context());
    rank.initialise_optimizer();
  }
  load_weights(reader, rank, absent);
  load_states(reader, rank, with_optimizer, absent);
  if (speaks) {
    log_info("  successfully loaded checkpoint from {} at iteration {}", config.run.load,
             manifest.iteration);
  }
  RunState state;
  state.loss_scaler = loss_scaler(config).state();
  if (config.run.finetune) return state;
  state.left_out_samples = left_out_samples(manifest);
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
