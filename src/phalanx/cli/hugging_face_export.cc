#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/checkpoint/checkpoint_writer.h"  // names of optimizer states
#include "phalanx/cli/folder_tokenizer.h"
#include "phalanx/cli/hugging_face_commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/hugging_face/adapters.h"
#include "phalanx/hugging_face/export.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/trained_parameters.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {
namespace {

using hugging_face::Architecture;

constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells
constexpr const char* kStopping = "SIGINT: leaving; what was written is removed\n";

struct ExportFlags {
  std::string load, output, architecture, lora_base;
  std::string dtype = "auto";
  std::int64_t max_shard_bytes = hugging_face::kMaxShardBytes;
  bool json = false;
  bool lora_only = false, merge_lora = false;
};

// The names of all architectures, as choices of a flag.
std::string_view architecture_choices() {
  static const std::string names = [] {
    std::string words;
    for (const Architecture* one : hugging_face::architectures()) {
      words += (words.empty() ? "" : " ") + std::string(one->name);
    }
    return words;
  }();
  return names;
}

void add_flags(FlagSet& flags, ExportFlags& given) {
  flags.add({.name = "--load",
             .help = "Save directory or one iteration's",
             .value_name = "DIR",
             .required = true},
            &given.load);
  flags.add(
      {.name = "--output", .help = "Folder: new, or empty", .value_name = "DIR", .required = true},
      &given.output);
  flags.add({.name = "--dtype",
             .help = "How weights are stored (auto: as the checkpoint has them)",
             .choices = "auto fp32 bf16 fp16"},
            &given.dtype);
  flags.add({.name = "--max-shard-bytes",
             .help = "Weights are several files where there are more bytes",
             .range = at_least(1)},
            &given.max_shard_bytes);
  flags.add({.name = "--architecture",
             .help = "What config.json calls the model (default: what it is)",
             .choices = architecture_choices()},
            &given.architecture);
  flags.add({.name = "--merge-lora",
             .help = "Of a checkpoint with adapters: the model with the adapters added to its "
                     "weights",
             .excludes = "--lora-only"},
            &given.merge_lora);
  flags.add({.name = "--lora-only",
             .help = "Of a checkpoint with adapters: these alone, as a folder of peft's",
             .excludes = "--merge-lora --dtype --max-shard-bytes"},
            &given.lora_only);
  flags.add({.name = "--lora-base",
             .help = "Where the base of the adapters is, if it was moved",
             .value_name = "DIR"},
            &given.lora_base);
  flags.add({.name = "--json", .help = "What was exported as JSON"}, &given.json);
}

std::optional<DType> dtype_of(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return name == "fp32" ? DType::kF32 : name == "bf16" ? DType::kBF16 : DType::kF16;
}

// The model as flags, including derived ones.
ModelArguments settings_of(const CheckpointReader& checkpoint, const TrainConfig& config) {
  ModelArguments settings;
  for (const auto& [name, value] : checkpoint.manifest().arguments) {
    if (is_kept_of_import(name)) settings.set(name, value);
  }
  for (auto& [flag, value] : argument_values(config)) settings.set(flag, std::move(value));
  settings.set(kFamilyArgument, std::string(family_of(config).name()));
  if (config.family != nullptr) {
    // The labels' names may come from the format of the table.
    const auto classify = ClassifyOptions::from_text(config.family_options);
    settings.set("--labels", joined_words(classify.label_names()));
    settings.set("--num-classes", classify.classes());
  }
  settings.set("--model-vocab-size", hugging_face::vocabulary_of(checkpoint));
  return settings;
}

const Architecture& architecture_of(const std::string& name, const ModelArguments& settings) {
  if (name.empty()) return hugging_face::architecture_for(settings);
  const Architecture* architecture = hugging_face::find_architecture(name);
  if (architecture != nullptr) return *architecture;
  throw ConfigError("--architecture {}: is none of {}", name, hugging_face::architecture_names());
}

// Adapters go with a flag that says how, and no such flag goes without adapters.
void check_lora_flags(const CheckpointReader& checkpoint, const ExportFlags& given) {
  const bool has_flag = given.lora_only || given.merge_lora;
  if (hugging_face::has_adapters(checkpoint) == has_flag) return;
  if (has_flag) {
    throw ConfigError("{}: --load {} has no adapters: leave the flag out",
                      given.lora_only ? "--lora-only" : "--merge-lora", given.load);
  }
  throw ConfigError(
      "--load {} has adapters: --merge-lora exports the model with the adapters added to its "
      "weights, --lora-only the adapters alone, as a folder of peft's",
      given.load);
}

// The weights that the run trained whole, beside the adapters. The base has all others; a
// checkpoint without a base has the frozen ones too.
std::vector<std::string> trained_whole(const CheckpointReader& checkpoint) {
  const auto is_frozen = frozen_parameters(checkpoint_config(checkpoint));
  std::vector<std::string> names;
  for (const Manifest::Entry& entry : checkpoint.manifest().tensors) {
    if (entry.name.starts_with(kOptimizerPrefix) || is_of_adapter(entry.name)) continue;
    if (!checkpoint.manifest().base && is_frozen && is_frozen(entry.name)) continue;
    names.push_back(entry.name);
  }
  return names;
}

int export_adapters(CommandIo& io, const CheckpointReader& checkpoint, const ExportFlags& given,
                    const ModelArguments& settings, const Architecture& architecture) {
  const hugging_face::Adapters adapters(checkpoint, settings);
  const auto table = architecture.tensors(settings);
  const auto whole = hugging_face::written_modules(checkpoint, trained_whole(checkpoint), table);
  const std::size_t modules = adapters.write_folder(given.output, table, whole);
  if (given.json) {
    const nlohmann::json json = {{"architecture", architecture.name},
                                 {"rank", adapters.settings().rank},
                                 {"modules", modules},
                                 {"modules_to_save", whole.names},
                                 {"iteration", checkpoint.manifest().iteration}};
    io.write(json.dump() + "\n");
  } else {
    log_info("{}: adapters of {} modules of iteration {}, rank {}", given.output, modules,
             checkpoint.manifest().iteration, adapters.settings().rank);
    if (!whole.names.empty()) {
      log_info("{}: whole, as they were trained (modules_to_save): {}", given.output,
               fmt::join(whole.names, ", "));
    }
  }
  return 0;
}

}  // namespace

int run_export_hugging_face(CommandIo& io, const Arguments& arguments) {
  ExportFlags given;
  FlagSet flags("phalanx export hf", "A checkpoint's weights as a folder of Hugging Face's.");
  add_flags(flags, given);
  flags.parse(arguments);
  const auto dtype = dtype_of(given.dtype);
  // For another type than the model's, and for adapters, values come from the main parameters,
  // which the optimizer keeps.
  const bool with_main = dtype || given.lora_only || given.merge_lora;
  const auto checkpoint =
      open_with_base(given.load, with_main ? Verify::kYes : Verify::kWeights, given.lora_base);
  check_lora_flags(checkpoint, given);
  TrainConfig config = for_inference(checkpoint_config(checkpoint));
  resolve(config, false);
  ModelArguments settings = settings_of(checkpoint, config);
  const Architecture& architecture = architecture_of(given.architecture, settings);
  if (given.lora_only) return export_adapters(io, checkpoint, given, settings, architecture);
  std::optional<hugging_face::Adapters> adapters;
  if (given.merge_lora) adapters.emplace(checkpoint, settings);
  hugging_face::ExportOptions options{.dtype = dtype,
                                      .max_shard_bytes = given.max_shard_bytes,
                                      .files = exported_files(checkpoint, config, settings)};
  const hugging_face::Export model(checkpoint, std::move(settings), architecture, dtype,
                                   adapters ? &*adapters : nullptr);
  const auto signals = io.listen(kStopping);
  options.stop_requested = [&] { return signals->received() != 0; };
  if (!model.write(given.output, options)) return kEndedBySignal + signals->received();
  if (given.json) {
    const nlohmann::json json = {{"architecture", architecture.name},
                                 {"parameters", model.parameters()},
                                 {"tensors", model.tensors()},
                                 {"iteration", checkpoint.manifest().iteration}};
    io.write(json.dump() + "\n");
  } else {
    log_info("{}: {}, {} parameters of iteration {} in {} tensors", given.output, architecture.name,
             format_count(model.parameters()), checkpoint.manifest().iteration, model.tensors());
  }
  return 0;
}

}  // namespace phalanx
