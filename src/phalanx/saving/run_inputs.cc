#include "phalanx/saving/run_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/numeric.h"
#include "phalanx/chat/template_file.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/families/family.h"
#include "phalanx/saving/resume.h"
#include "phalanx/settings/data_settings.h"

namespace phalanx {
namespace {

constexpr std::string_view kModelFlag = "--tokenizer-model";

void add_copied(RunInputs& inputs, const TokenizerFile& file) {
  InputCopy copy{.name = file.name, .bytes = read_file(file.path)};
  inputs.files.push_back(describe_input_copy(file.flag, file.path, copy));
  inputs.copies.push_back(std::move(copy));
}

// The template as the run began with it, from whatever file.
void add_template(RunInputs& inputs, const TemplateText& found) {
  InputCopy copy{.name = std::string(kChatTemplateName), .bytes = found.text};
  inputs.files.push_back(describe_input_copy(std::string(kChatTemplateFlag), found.name, copy));
  inputs.copies.push_back(std::move(copy));
}

// Whether data paths name files, and not the prefixes of datasets.
bool reads_files(const TrainConfig& config) {
  return family_of(config).reads_tables() || config.data.sft;
}

// Whether the flag names datasets.
bool is_data(const Manifest::InputFile& file) { return file.flag.ends_with("data-path"); }
// Whether the file is part of what is learned, which a new run from the weights may have anew.
bool is_learned(const Manifest::InputFile& file) {
  return is_data(file) || file.flag == kChatTemplateFlag;
}

// What identifies an entry among those of its flag: the number of the dataset and its file, or the
// name of a file in a tokenizer model's directory.
struct Role {
  std::string flag, extension;
  std::int64_t number = 0;
  friend bool operator<(const Role& a, const Role& b) {
    return std::tie(a.flag, a.extension, a.number) < std::tie(b.flag, b.extension, b.number);
  }
};

std::map<Role, const Manifest::InputFile*> roles_of(const std::vector<Manifest::InputFile>& files) {
  std::map<Role, const Manifest::InputFile*> roles;
  for (const Manifest::InputFile& file : files) {
    Role role{.flag = file.flag, .extension = {}};
    if (is_data(file)) role.extension = std::filesystem::path(file.path).extension().string();
    if (file.flag == kModelFlag) role.extension = file.copy;
    while (roles.contains(role)) ++role.number;
    roles[role] = &file;
  }
  return roles;
}

std::string identity(const Manifest::InputFile& file) {
  std::string text = fmt::format("{} bytes", format_count(file.bytes));
  if (file.xxh3) text += fmt::format(" with digest {}", digest_to_text(*file.xxh3));
  return text;
}

}  // namespace

void check_files(const TrainConfig& config) {
  std::vector<std::string> missing;
  const auto look = [&](std::string_view flag, const std::string& path) {
    const std::string fault = path.empty() ? std::string() : input_fault(path);
    if (fault.empty()) return true;
    missing.push_back(fmt::format("{}: {}: {}", flag, path, fault));
    return false;
  };
  for (const TokenizerFile& file : tokenizer_files(config.tokenizer)) look(file.flag, file.path);
  look(kChatTemplateFlag, config.data.chat_template);
  look("--answer-prompts", config.run.answer_prompts);
  const bool has_words = look("--data-args-path", config.data.data_args_path);
  if (look("--per-split-data-args-path", config.data.per_split_data_args_path) && has_words) {
    for (const auto& [flag, prefix] : data_paths(config.data).prefixes()) {
      if (reads_files(config)) {
        look(flag, prefix);
        continue;
      }
      if (const std::string fault = missing_dataset(prefix); !fault.empty()) {
        missing.push_back(fmt::format("{}: {}", flag, fault));
      }
    }
  }
  if (!missing.empty()) throw InputMissingError("{}", first_few(missing, "\n"));
  const auto pictures = std::filesystem::path(config.run.trace).parent_path();
  std::error_code unknown;
  if (!pictures.empty() && !std::filesystem::is_directory(pictures, unknown)) {
    throw OutputError("--trace {}: there is no directory {}", config.run.trace, pictures.string());
  }
}

RunInputs run_inputs(const TrainConfig& config) {
  RunInputs inputs;
  for (const TokenizerFile& file : tokenizer_files(config.tokenizer)) add_copied(inputs, file);
  if (config.data.sft) add_template(inputs, chat_template_text(config.data, config.tokenizer));
  const RunDataPaths paths = data_paths(config.data);
  for (const auto& [flag, prefix] : paths.prefixes()) {
    if (reads_files(config)) {
      inputs.files.push_back(describe_input_file(std::string(flag), prefix));
      continue;
    }
    inputs.files.push_back(describe_input_file(std::string(flag), prefix + ".idx"));
    // The tokens may be terabytes, so only the index is read whole: it has each document's place.
    inputs.files.push_back(describe_input_length(std::string(flag), prefix + ".bin"));
  }
  inputs.arguments = order_arguments(config, paths);
  return inputs;
}

namespace {

constexpr std::string_view kNewRun = "--finetune to start a new run from the checkpoint's weights";

// Compares what the order of samples depends on, where the checkpoint has it.
void check_order(const RunInputs& inputs, const Manifest& manifest, const RunConfig& run) {
  if (run.finetune) return;
  const auto of = [](const std::map<std::string, std::string>& arguments, std::string_view key) {
    const auto found = arguments.find(std::string(key));
    return found == arguments.end() ? std::string() : found->second;
  };
  const std::string blend = of(inputs.arguments, kDataBlend);
  std::string then = of(manifest.arguments, kDataBlend);
  // Earlier versions had one dataset and no entry for it.
  if (then.empty() && std::ranges::any_of(manifest.input_files, is_data)) then = "--data-path";
  if (!then.empty() && blend != then && !is_allowed_to_change(run, "--data-path")) {
    throw ConfigError(
        "the data is {}, but the checkpoint of iteration {} was made with {}: give as many "
        "datasets by the same flags, with the same weights, {}, or --allow-changed data-path",
        blend, manifest.iteration, then, kNewRun);
  }
  const auto multiple = [&](const std::map<std::string, std::string>& arguments) {
    const std::string text = of(arguments, kDocumentMultiple);
    return text.empty() ? "1" : text;
  };
  if (multiple(inputs.arguments) != multiple(manifest.arguments) &&
      !is_allowed_to_change(run, "--context-parallel-cut")) {
    throw ConfigError(
        "packed documents take a multiple of {} rows, but the checkpoint of iteration {} was made "
        "with multiples of {}, which gives other samples: --context-parallel-cut documents needs "
        "twice --context-parallel-size; give the same of both, {}, or --allow-changed "
        "context-parallel-cut",
        multiple(inputs.arguments), manifest.iteration, multiple(manifest.arguments), kNewRun);
  }
  const std::string order = of(inputs.arguments, kCyclicOrder);
  const std::string order_then = of(manifest.arguments, kCyclicOrder);
  if (order.empty() || order_then.empty() || order == order_then) return;
  if (is_allowed_to_change(run, "--dataloader-type")) return;
  throw ConfigError(
      "--dataloader-type cyclic has another order of samples with other sizes: it is {}, but the "
      "checkpoint of iteration {} was made with {}: give those, {}, or --allow-changed "
      "dataloader-type",
      order, manifest.iteration, order_then, kNewRun);
}

}  // namespace

void check_inputs(const RunInputs& inputs, const Manifest& manifest, const RunConfig& run) {
  check_order(inputs, manifest, run);
  const auto roles = roles_of(manifest.input_files);
  for (const auto& [role, now] : roles_of(inputs.files)) {
    // A new run from the weights must have their tokenizer, but not their data. Another type of
    // tokenizer has other files.
    const bool is_free =
        is_learned(*now) ? run.finetune : is_allowed_to_change(run, "--tokenizer-type");
    if (is_free || is_allowed_to_change(run, now->flag)) continue;
    const auto found = roles.find(role);
    if (found == roles.end()) continue;
    const Manifest::InputFile& then = *found->second;
    if (now->bytes == then.bytes && now->xxh3 == then.xxh3) continue;
    throw ConfigError(
        "{} {}: this file has {}, but the checkpoint of iteration {} was made with {}, which had "
        "{}: give that file{}{}, or --allow-changed {}",
        now->flag, now->path, identity(*now), manifest.iteration, then.path, identity(then),
        is_learned(*now) ? ", " : "", is_learned(*now) ? kNewRun : "", now->flag.substr(2));
  }
}

void use_kept_tokenizer(TrainConfig& config, const CheckpointReader& checkpoint) {
  const auto take = [&](std::string& path, std::string_view flag) {
    if (const auto kept = checkpoint.copy_of(flag)) path = kept->string();
  };
  take(config.tokenizer.vocab_file, "--vocab-file");
  take(config.tokenizer.merge_file, "--merge-file");
  take(config.tokenizer.tokenizer_model, kModelFlag);
}

}  // namespace phalanx
