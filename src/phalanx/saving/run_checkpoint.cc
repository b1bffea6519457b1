#include "phalanx/saving/run_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/families/family.h"
#include "phalanx/saving/non_persistent.h"
#include "phalanx/saving/upcycling.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/expert_views.h"
#include "phalanx/settings/trained_parameters.h"

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

// Adapters, states of layers and routers of a new run that begins with none.
std::set<std::string> new_beside_weights(const TrainConfig& config, const CheckpointReader& reader,
                                         const nn::ParamTable& table) {
  std::set<std::string> absent;
  if (!config.run.finetune) return absent;
  for (const ParamSpec& spec : table.specs()) {
    const bool may_be_new = spec.is_state || (config.lora.rank > 0 && is_of_adapter(spec.name)) ||
                            (upcycles(config.run) && Upcycling::is_new(spec.name));
    if (may_be_new && reader.find(spec.name) == nullptr) absent.insert(spec.name);
  }
  return absent;
}

std::optional<Upcycling> upcycling_of(const TrainConfig& config) {
  if (!upcycles(config.run)) return std::nullopt;
  return Upcycling(config);
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

// Files that are not read are not verified.
Verify what_to_verify(const RunConfig& run) {
  return run.finetune || run.no_load_optim ? Verify::kCopiesOfWeights : Verify::kCopies;
}

// Null where there is none, it is older than those that last, or it cannot be read.
std::shared_ptr<CheckpointReader> open_non_persistent(const RunConfig& run,
                                                      std::span<const RefusedCheckpoint> refused) {
  const auto newest = newest_non_persistent(run, run.load);
  if (!newest) return nullptr;
  try {
    return open_checkpoint_at(run, newest->directory.string(), true, refused);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    log_warning("{}; the run begins with what --load {} has", error.what(), run.load);
    return nullptr;
  }
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

std::shared_ptr<CheckpointReader> open_checkpoint(const RunConfig& run,
                                                  std::span<const RefusedCheckpoint> refused) {
  if (run.load.empty()) return nullptr;
  if (run.ckpt_step > 0) {
    const auto named = directory_of_iteration(run.load, run.ckpt_step);
    return open_checkpoint_at(run, named.string(), true, refused);
  }
  if (auto newest = open_non_persistent(run, refused)) return newest;
  auto reader = CheckpointReader::open_if_any(run.load, what_to_verify(run), refused);
  if (reader) return std::make_shared<CheckpointReader>(std::move(*reader));
  if (run.exit_on_missing_checkpoint) {
    const bool is_pretrained = run.load == run.pretrained_checkpoint;
    throw InputMissingError("{} {}: there is no checkpoint{}",
                            is_pretrained ? "--pretrained-checkpoint" : "--load", run.load,
                            is_pretrained ? "" : " (--exit-on-missing-checkpoint)");
  }
  log_warning("{}", no_checkpoint_message(run.load));
  return nullptr;
}

std::shared_ptr<CheckpointReader> open_checkpoint_at(const RunConfig& run,
                                                     const std::string& directory, bool verified,
                                                     std::span<const RefusedCheckpoint> refused) {
  check_not_refused(directory, refused);
  return std::make_shared<CheckpointReader>(directory,
                                            verified ? what_to_verify(run) : Verify::kNo);
}

RunPosition position_of(const Manifest& manifest) {
  return {.iteration = manifest.iteration,
          .consumed_train_samples = manifest.consumed_train_samples,
          .consumed_valid_samples = manifest.consumed_valid_samples,
          .evaluation_is_due = manifest.arguments.contains(std::string(kDueEvaluation))};
}

void check_trained(const TrainConfig& config, const Model& model, const Manifest& manifest) {
  // An imported model has no states.
  if (config.run.finetune || config.run.no_load_optim || manifest.iteration == 0) return;
  std::set<std::string_view> has_states;  // of which parameters
  for (const Manifest::Entry& entry : manifest.tensors) {
    const std::string_view name = entry.name;
    if (!name.starts_with(kOptimizerPrefix)) continue;
    const std::size_t end = name.find('.', kOptimizerPrefix.size());
    if (end != std::string_view::npos) has_states.insert(name.substr(end + 1));
  }
  if (has_states.empty()) return;
  const auto is_frozen = frozen_parameters(config);
  nn::ParamTable table;
  model.build_chunk(model.whole(), table);
  for (const ParamSpec& spec : table.specs()) {
    if (spec.is_state) continue;
    const bool trains = !is_frozen || !is_frozen(spec.name);
    if (trains == has_states.contains(spec.name)) continue;
    throw ConfigError(
        "this run {} {}, and the checkpoint of iteration {} is of a run that {}: give --trainable "
        "and --freeze as they were, or --no-load-optim to begin the optimizer and the schedules "
        "anew",
        trains ? "trains" : "does not train", spec.name, manifest.iteration,
        trains ? "did not" : "did");
  }
}

void check_tensors(const TrainConfig& config, const Model& model, const Manifest& manifest) {
  nn::ParamTable table;
  model.build_chunk(model.whole(), table);
  const auto upcycling = upcycling_of(config);
  std::set<std::string> names;
  for (const ParamSpec& spec : table.specs()) {
    const auto dense = upcycling ? upcycling->part_of(spec) : std::nullopt;
    names.insert(dense ? dense->name : spec.name);
  }
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
    log_info(" loading checkpoint from {} at iteration {}",
             reader.is_in_memory() ? reader.place() : config.run.load, manifest.iteration);
  }
  LoadOptions options{
      .with_optimizer = reader.has_optimizer() && !config.run.finetune && !config.run.no_load_optim,
      .in_shares = !config.run.no_ckpt_fully_parallel_load};
  const bool with_part = begins_with_part(config);
  options.absent = with_part ? absent_parameters(reader, rank.whole_table())
                             : new_beside_weights(config, reader, rank.whole_table());
  if (with_part || !options.absent.empty()) {
    rank.initialise();
    if (speaks && with_part && !options.absent.empty()) {
      log_warning("the checkpoint has no {}: these begin with random weights",
                  fmt::join(options.absent, ", "));
    }
  } else {
    rank.initialise_gradients();
    // A checkpoint has no padding: the padding is set to zero here.
    rank.parameters().clear(rank.context());
    rank.initialise_optimizer();
  }
  const auto upcycling = upcycling_of(config);
  if (upcycling) {
    options.upcycling = &*upcycling;
    if (speaks) log_info("  experts are made of the dense MLPs; routers begin with random weights");
  }
  const LoadFacts facts = load_states(reader, rank, options);
  if (!facts.fault.empty()) {
    rank.end_together();
    throw UnreadableCheckpoint{{.directory = reader.place(), .fault = facts.fault}};
  }
  if (speaks) {
    log_info("  successfully loaded checkpoint from {} at iteration {}",
             reader.is_in_memory() ? reader.place() : config.run.load, manifest.iteration);
    log_info("  {} read in {:.2f} s ({}/s by {} rank{}), {} sent between ranks",
             format_bytes(facts.bytes_read), facts.seconds,
             format_bytes(static_cast<std::int64_t>(static_cast<double>(facts.bytes_read) /
                                                    std::max(facts.seconds, 1e-9))),
             rank.ranks().world->size(), rank.ranks().world->size() == 1 ? "" : "s",
             format_bytes(facts.bytes_sent));
  }
  RunState state;
  state.loading = facts;
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
