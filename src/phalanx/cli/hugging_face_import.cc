#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/folder_tokenizer.h"
#include "phalanx/cli/hugging_face_commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/hugging_face/kept_files.h"
#include "phalanx/hugging_face/write_import.h"

namespace phalanx {
namespace {

using hugging_face::Import;

constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells
constexpr const char* kStopping = "SIGINT: leaving; what was written is removed\n";

struct ImportFlags {
  std::string input, output, lora;
  bool ignore_unexpected = false;
  bool no_tokenizer = false;
  bool json = false;
  bool verbose = false;
};

void add_flags(FlagSet& flags, ImportFlags& given) {
  flags.add({.name = "--input",
             .help = "Folder with config.json and safetensors files",
             .value_name = "DIR",
             .required = true},
            &given.input);
  flags.add({.name = "--output",
             .help = "Directory of the checkpoint: new, or empty",
             .value_name = "DIR",
             .required = true},
            &given.output);
  flags.add({.name = "--lora",
             .help = "Folder of adapters of this model, as peft writes it: they become the "
                     "checkpoint OUTPUT/adapters",
             .value_name = "DIR"},
            &given.lora);
  flags.add({.name = "--ignore-unexpected",
             .help = "Leave out tensors that the architecture does not have"},
            &given.ignore_unexpected);
  flags.add({.name = "--no-tokenizer",
             .help = "The weights alone: texts are ids (NullTokenizer), and export hf writes no "
                     "tokenizer"},
            &given.no_tokenizer);
  flags.add({.name = "--json", .help = "What was imported as JSON"}, &given.json);
  flags.add({.name = "--verbose",
             .help = "Also say which keys of config.json say nothing of the model, which files are "
                     "kept for export, and all flags"},
            &given.verbose);
}

// The files that are kept and exported again.
void keep_other_files(const std::filesystem::path& folder, hugging_face::ImportOutput& output) {
  std::set<std::string> names;
  for (const InputCopy& copy : output.copies) names.insert(copy.name);
  auto kept = hugging_face::read_kept_files(folder, names);
  for (const auto& file : kept.left_out) {
    log_warning("{}: {}: not kept, export hf will not write it", (folder / file.name).string(),
                file.reason);
  }
  for (InputCopy& copy : kept.files) {
    output.input_files.push_back(hugging_face::describe_kept_file(folder, copy));
    output.copies.push_back(std::move(copy));
  }
}

hugging_face::ImportOutput output_of(const Import& model, const ImportFlags& given) {
  const TokenizerOptions tokenizer = folder_tokenizer(model, !given.no_tokenizer);
  hugging_face::ImportOutput output{.directory = given.output,
                                    .tokenizer = tokenizer_arguments(tokenizer)};
  for (const TokenizerFile& file : tokenizer_files(tokenizer)) {
    InputCopy copy{.name = file.name, .bytes = read_file(file.path)};
    output.input_files.push_back(describe_input_copy(file.flag, file.path, copy));
    output.copies.push_back(std::move(copy));
  }
  if (!given.no_tokenizer) keep_other_files(model.folder().directory(), output);
  return output;
}

std::vector<std::string> kept_names(const hugging_face::ImportOutput& output) {
  std::vector<std::string> names;
  for (const auto& file : hugging_face::kept_files_of(output.input_files)) {
    names.push_back(file.copy);
  }
  return names;
}

std::map<std::string, std::string> arguments_of(const Import& model,
                                                const hugging_face::ImportOutput& output) {
  auto arguments = model.settings().arguments();
  arguments.insert(output.tokenizer.begin(), output.tokenizer.end());
  return arguments;
}

// Tells keys that stand in two files, or in one that only export reads.
void report_generation(const Import& model) {
  const ModelArguments& settings = model.settings();
  const auto in_config = settings.ids(kConfigEos);
  const auto for_texts = settings.ids(kGenerationEos);
  if (!in_config.empty() && in_config != for_texts) {
    log_info(
        "config.json ends texts with {}, generation_config.json with {}: generate goes by the "
        "latter",
        fmt::join(in_config, " "), fmt::join(for_texts, " "));
  }
  if (!model.folder().generation()) return;
  auto keys = model.folder().generation()->keys();
  std::erase_if(keys, [](const std::string& key) {
    return key.starts_with('_') ||
           std::ranges::find(kWrittenOfGeneration, key) != kWrittenOfGeneration.end();
  });
  if (keys.empty()) return;
  log_info("generation_config.json: kept for export, but generate goes by its own flags: {}",
           fmt::join(keys, ", "));
}

void report(CommandIo& io, const Import& model, const hugging_face::ImportOutput& output,
            const ImportFlags& given) {
  const auto arguments = arguments_of(model, output);
  const auto kept = kept_names(output);
  const auto unused = model.folder().config().unused(given.verbose);
  if (!unused.empty()) log_info("config.json: nothing depends on {}", fmt::join(unused, ", "));
  report_generation(model);
  if (given.verbose) {
    if (!model.dropped().empty()) {
      log_info("tensors left out: {}", fmt::join(model.dropped(), ", "));
    }
    if (!kept.empty()) log_info("files kept as they are: {}", fmt::join(kept, ", "));
    if (output.adapters != nullptr && !output.adapters->config().not_read.empty()) {
      log_info("{}: ignored: {}", hugging_face::kAdapterConfigName,
               fmt::join(output.adapters->config().not_read, ", "));
    }
    for (const auto& [flag, value] : arguments) log_info("  {} {}", flag, value);
  }
  if (given.json) {
    nlohmann::json json = {{"architecture", model.architecture().name},
                           {"parameters", model.parameters()},
                           {"tensors", model.table().rows.size()},
                           {"dropped", model.dropped()},
                           {"kept_files", kept},
                           {"arguments", arguments}};
    if (output.adapters != nullptr) {
      json["adapters"] = {{"tensors", output.adapters->tensors().size()},
                          {"arguments", output.adapters->settings().arguments().arguments()}};
    }
    io.write(json.dump() + "\n");
    return;
  }
  log_info("{}: {}, {} parameters in {} tensors, {}", given.output, model.architecture().name,
           format_count(model.parameters()), model.table().rows.size(),
           arguments.at("--tokenizer-type"));
  if (output.adapters == nullptr) return;
  const auto& settings = output.adapters->settings();
  log_info("{}/{}: adapters of rank {} of {}", given.output, hugging_face::kAdaptersDirectory,
           settings.rank, fmt::join(settings.targets, " "));
}

}  // namespace

int run_import_hugging_face(CommandIo& io, const Arguments& arguments) {
  ImportFlags given;
  FlagSet flags("phalanx import hf", "A folder of Hugging Face's transformers as a checkpoint.");
  add_flags(flags, given);
  flags.parse(arguments);
  const Import model(given.input, given.ignore_unexpected);
  std::optional<hugging_face::AdapterFolder> adapters;
  if (!given.lora.empty()) adapters.emplace(given.lora, model.settings());
  if (adapters && !adapters->scaled().empty()) {
    log_warning(
        "{}: alpha / rank of {} is not that of the others: their B is multiplied with the "
        "quotient, which gives the same model; trained further it learns at another rate than "
        "peft's",
        given.lora, first_few(adapters->scaled(), ", "));
  }
  auto output = output_of(model, given);
  if (adapters) output.adapters = &*adapters;
  const auto signals = io.listen(kStopping);
  output.stop_requested = [&] { return signals->received() != 0; };
  if (!hugging_face::write_import(model, output)) return kEndedBySignal + signals->received();
  report(io, model, output, given);
  return 0;
}

}  // namespace phalanx
