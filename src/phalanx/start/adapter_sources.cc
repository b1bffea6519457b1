#include "phalanx/start/adapter_sources.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/checkpoint/memory_tensors.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/hugging_face/adapter_folder.h"
#include "phalanx/hugging_face/adapters.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {
namespace {

using hugging_face::AdapterFolder;
using hugging_face::AdapterSettings;

// That of --lora-load, as the flags of this run must say it.
void check_scale(const LoraConfig& lora, const AdapterSettings& loaded) {
  const AdapterSettings own{.rank = lora.rank,
                            .alpha = lora.alpha.value_or(0.0),
                            .rank_stabilized = lora.scaling == "rank-stabilized"};
  if (own.rank == loaded.rank && own.scale() == loaded.scale()) return;
  throw ConfigError(
      "--lora-load {}: its adapters have rank {} and are added times {:.9g}; the flags of this run "
      "say rank {} and {:.9g}: leave --lora-rank, --lora-alpha and --lora-scaling out, or give "
      "--lora-rank {} --lora-alpha {:.9g}{}",
      lora.load, loaded.rank, loaded.scale(), own.rank, own.scale(), loaded.rank, loaded.alpha,
      loaded.rank_stabilized ? " --lora-scaling rank-stabilized" : "");
}

std::shared_ptr<const CheckpointReader> adapters_of_folder(const LoraConfig& lora,
                                                           const CheckpointReader& base,
                                                           bool leads) {
  const AdapterFolder folder(lora.load, ModelArguments(base.manifest().arguments));
  check_scale(lora, folder.settings());
  if (!folder.scaled().empty()) {
    throw ConfigError(
        "--lora-load {}: alpha / rank of {} is not that of the others (rank_pattern, "
        "alpha_pattern): adapters are trained with one for all. import hf --lora takes them for "
        "inference, and export hf --merge-lora of that makes a base for new ones",
        lora.load, first_few(folder.scaled(), ", "));
  }
  if (leads && !folder.config().base_model.empty()) {
    log_info("> --lora-load {}: adapters of {}", lora.load, folder.config().base_model);
  }
  return reader_of(folder.tensors());
}

std::shared_ptr<const CheckpointReader> adapters_of_checkpoint(
    const LoraConfig& lora, const std::optional<Manifest::Base>& base, bool leads) {
  auto adapters =
      std::make_shared<const CheckpointReader>(CheckpointReader::open(lora.load, Verify::kWeights));
  if (!hugging_face::has_adapters(*adapters)) {
    throw ConfigError("--lora-load {}: the checkpoint has no adapters", lora.load);
  }
  const Manifest& manifest = adapters->manifest();
  check_scale(lora, AdapterSettings::of(ModelArguments(manifest.arguments)));
  const bool is_known = leads && manifest.base && base;
  if (is_known && manifest.base->weights_xxh3 != base->weights_xxh3) {
    log_warning(
        "--lora-load {}: the adapters were trained on weights with the digest {}, those of this "
        "run "
        "have {}",
        lora.load, digest_to_text(manifest.base->weights_xxh3), digest_to_text(base->weights_xxh3));
  }
  return adapters;
}

// Whoever saves there removes older checkpoints one day.
void check_base_lasts(const RunConfig& run, const CheckpointReader& base) {
  if (run.save.empty() || !is_saved_in(run.save, base)) return;
  throw ConfigError(
      "--save {}: the base of the adapters, {}, lies there, and this run would remove it one day: "
      "name another directory",
      run.save, base.directory().string());
}

// A run without adapters cannot use them.
void check_without_adapters(const CheckpointReader* checkpoint) {
  if (checkpoint == nullptr || !checkpoint->manifest().base) return;
  throw ConfigError(
      "{}: has adapters alone: give their flags (--lora-rank, ...; --use-checkpoint-args takes "
      "them), or make a whole model of it with export hf --merge-lora and import hf",
      checkpoint->place());
}

}  // namespace

std::optional<Manifest::Base> join_adapters(TrainConfig& config, CheckpointReader* checkpoint,
                                            bool leads) {
  const LoraConfig& lora = config.lora;
  config.lora.has_base = false;
  if (lora.rank == 0) {
    check_without_adapters(checkpoint);
    return std::nullopt;
  }
  if (checkpoint == nullptr) {
    if (lora.load.empty()) return std::nullopt;
    throw ConfigError(
        "--lora-load {}: adapters need the model that they are of: give --finetune --load DIR with "
        "its checkpoint",
        lora.load);
  }
  const bool is_new = config.run.finetune;
  const bool has_adapters = hugging_face::has_adapters(*checkpoint);
  std::optional<Manifest::Base> base = checkpoint->manifest().base;
  if (base) {
    join_base(*checkpoint, lora.base, Verify::kCopies, leads);
    base->path = recorded_path(checkpoint->base()->directory());
    check_base_lasts(config.run, *checkpoint->base());
  } else if (!has_adapters && !is_new) {
    throw ConfigError(
        "{}: the checkpoint has no adapters: give --finetune to begin new ones on its weights "
        "(with --pretrained-checkpoint DIR in the place of --load a run can be restarted)",
        checkpoint->place());
  } else if (!has_adapters) {
    check_base_lasts(config.run, *checkpoint);
    // The digest of weights in parts takes as long as reading them.
    base = leads ? describe_base(*checkpoint)
                 : Manifest::Base{.path = recorded_path(checkpoint->directory())};
  }
  config.lora.has_base = base.has_value();
  if (is_new && !lora.load.empty()) {
    auto adapters = hugging_face::is_adapter_folder(lora.load)
                        ? adapters_of_folder(lora, *checkpoint, leads)
                        : adapters_of_checkpoint(lora, base, leads);
    checkpoint->lay_over(std::move(adapters));
  }
  return base;
}

void check_loaded_adapters(const TrainConfig& config, const Model& model,
                           const CheckpointReader& checkpoint) {
  const CheckpointReader* adapters = checkpoint.overlay();
  if (adapters == nullptr && !checkpoint.manifest().base) return;
  nn::ParamTable table;
  table.freeze(frozen_parameters(config));
  model.build_chunk(model.whole(), table);
  std::set<std::string_view> own, trained;
  for (const ParamSpec& spec : table.specs()) {
    if (is_of_adapter(spec.name)) own.insert(spec.name);
    if (spec.trainable) trained.insert(spec.name);
  }
  // The run keeps what it trains; of all else only the base is known later.
  const auto check_whole = [&](const CheckpointReader& reader, const std::string& place) {
    for (const Manifest::Entry& entry : reader.manifest().tensors) {
      const bool is_adapter = is_of_adapter(entry.name);
      if (entry.name.starts_with(kOptimizerPrefix) || is_adapter || trained.contains(entry.name)) {
        continue;
      }
      throw ConfigError(
          "{}: has {} whole beside the adapters, and this run would not keep it: give --trainable "
          "'^{}$', which trains it further",
          place, entry.name, entry.name);
    }
  };
  if (checkpoint.manifest().base) check_whole(checkpoint, checkpoint.place());
  if (adapters == nullptr) return;
  const std::string place = "--lora-load " + config.lora.load;
  const auto refuse = [&](const std::string& name, std::string_view fault) {
    throw ConfigError(
        "{}: {} {}: give --lora-targets and --lora-layers as the adapters have them, or leave them "
        "out",
        place, name, fault);
  };
  for (const std::string_view name : own) {
    if (adapters->find(name) == nullptr) refuse(std::string(name), "is missing");
  }
  for (const Manifest::Entry& entry : adapters->manifest().tensors) {
    if (entry.name.starts_with(kOptimizerPrefix) || !is_of_adapter(entry.name)) continue;
    if (!own.contains(entry.name)) refuse(entry.name, "has no place in this model");
  }
  check_whole(*adapters, place);
}

}  // namespace phalanx
