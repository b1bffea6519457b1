#include "phalanx/train/run_inputs.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/train/resume.h"

namespace phalanx {
namespace {

constexpr std::string_view kDataFlag = "--data-path";

void add_copied(RunInputs& inputs, const TokenizerFile& file) {
  InputCopy copy{.name = file.name, .bytes = read_file(file.path)};
  inputs.files.push_back(describe_input_copy(file.flag, file.path, copy));
  inputs.copies.push_back(std::move(copy));
}

// An entry's place among those of its flag: a dataset is two files.
std::string role(const Manifest::InputFile& file) {
  return file.flag == kDataFlag ? file.flag + std::filesystem::path(file.path).extension().string()
                                : file.flag;
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
    std::error_code unknown;
    if (path.empty() || std::filesystem::exists(path, unknown)) return;
    missing.push_back(fmt::format("{}: {}: no such file", flag, path));
  };
  for (const TokenizerFile& file : tokenizer_files(config.tokenizer)) look(file.flag, file.path);
  for (const std::string& prefix : config.data.data_path) {
    look(kDataFlag, prefix + ".idx");
    look(kDataFlag, prefix + ".bin");
  }
  if (!missing.empty()) throw InputMissingError("{}", fmt::join(missing, "\n"));
  const auto pictures = std::filesystem::path(config.run.trace).parent_path();
  if (!pictures.empty() && !std::filesystem::is_directory(pictures)) {
    throw OutputError("--trace {}: there is no directory {}", config.run.trace, pictures.string());
  }
}

RunInputs run_inputs(const TrainConfig& config) {
  RunInputs inputs;
  for (const TokenizerFile& file : tokenizer_files(config.tokenizer)) add_copied(inputs, file);
  for (const std::string& prefix : config.data.data_path) {
    inputs.files.push_back(describe_input_file(std::string(kDataFlag), prefix + ".idx"));
    // The tokens may be terabytes: the index says where each document lies in them.
    inputs.files.push_back(describe_input_length(std::string(kDataFlag), prefix + ".bin"));
  }
  return inputs;
}

void check_inputs(const RunInputs& inputs, const Manifest& manifest, const RunConfig& run) {
  for (const Manifest::InputFile& now : inputs.files) {
    // A new run from the weights has their tokenizer, and data of its own.
    const bool is_free = run.finetune && now.flag == kDataFlag;
    if (is_free || is_allowed_to_change(run, now.flag)) continue;
    for (const Manifest::InputFile& then : manifest.input_files) {
      if (role(now) != role(then) || (now.bytes == then.bytes && now.xxh3 == then.xxh3)) continue;
      throw ConfigError(
          "{} {}: this file has {}, but the checkpoint of iteration {} was made with {}, which had "
          "{}: give that file{}, or --allow-changed {}",
          now.flag, now.path, identity(now), manifest.iteration, then.path, identity(then),
          now.flag == kDataFlag ? ", --finetune to start a new run from the checkpoint's weights"
                                : "",
          now.flag.substr(2));
    }
  }
}

void use_kept_tokenizer(TrainConfig& config, const CheckpointReader& checkpoint) {
  const auto take = [&](std::string& path, std::string_view flag) {
    if (const auto kept = checkpoint.copy_of(flag)) path = kept->string();
  };
  take(config.tokenizer.vocab_file, "--vocab-file");
  take(config.tokenizer.merge_file, "--merge-file");
  take(config.tokenizer.tokenizer_model, "--tokenizer-model");
}

}  // namespace phalanx
