#include "phalanx/cli/checkpoint_arguments.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {
namespace {

constexpr auto kTokenizerPaths =
    std::to_array<std::string_view>({"--vocab-file", "--merge-file", "--tokenizer-model"});

// A file that is given without a type belongs to the checkpoint's type.
void expect_type_takes(std::string_view type, std::string_view flag, const FlagSet& flags,
                       const std::filesystem::path& directory) {
  const auto row = std::ranges::find(tokenizer_types(), type, &TokenizerType::name);
  if (!flags.given(flag) || row == tokenizer_types().end()) return;
  const auto names = [&](std::string_view list) {
    const auto words = words_of(list);
    return std::ranges::find(words, flag) != words.end();
  };
  if (names(row->needs) || names(row->takes)) return;
  throw ConfigError(
      "{} is given, but the tokenizer of {} is a {}, which has none: give --tokenizer-type, too",
      flag, directory.string(), type);
}

// Takes the checkpoint's tokenizer, unless the call names another type: then nothing of it is
// taken.
void use_tokenizer(const CheckpointReader& checkpoint, const std::string& given_type,
                   FlagSet& flags) {
  const auto& arguments = checkpoint.manifest().arguments;
  const auto type = arguments.find("--tokenizer-type");
  const bool is_known = type != arguments.end();
  if (flags.given("--tokenizer-type")) {
    if (is_known && given_type != type->second) return;
  } else if (is_known) {
    for (const auto path : kTokenizerPaths) {
      expect_type_takes(type->second, path, flags, checkpoint.directory());
    }
  }
  for (const TrainFlag& flag : tokenizer_flags()) {
    const auto said = arguments.find(std::string(flag.spec.name));
    const bool is_path =
        std::ranges::find(kTokenizerPaths, flag.spec.name) != kTokenizerPaths.end();
    if (is_path) {
      if (const auto kept = checkpoint.copy_of(flag.spec.name)) {
        flags.set_default(flag.spec.name, kept->string());
      }
    } else if (said != arguments.end()) {
      flags.set_default(flag.spec.name, said->second);
    }
  }
}

}  // namespace

void use_model_arguments(FlagSet& flags, const std::map<std::string, std::string>& arguments) {
  // The model's switch for an activation would contradict the one of the call.
  const auto is_said_otherwise = [&](const TrainFlag& flag) {
    return (flag.spec.name == "--swiglu" || flag.spec.name == "--squared-relu") &&
           flags.given("--activation-func");
  };
  for (const TrainFlag& flag : train_flags()) {
    if (is_said_otherwise(flag) || describes_tokenizer(flag)) continue;
    const auto said = arguments.find(std::string(flag.spec.name));
    if (describes_model(flag) && said != arguments.end()) {
      flags.set_default(flag.spec.name, said->second);
    }
  }
}

namespace {

std::filesystem::path directory_of_model(const RunConfig& run) {
  if (run.ckpt_step > 0) return directory_of_iteration(run.load, run.ckpt_step);
  return begins_pretrained(run) ? run.pretrained_checkpoint : run.load;
}

}  // namespace

std::optional<CheckpointReader> checkpoint_of_model(const RunConfig& run) {
  if (run.load.empty() && run.pretrained_checkpoint.empty()) return std::nullopt;
  return CheckpointReader::open_if_any(directory_of_model(run), Verify::kNo);
}

void use_checkpoint_arguments(FlagSet& flags, const TrainConfig& config) {
  const RunConfig& run = config.run;
  if (!run.use_checkpoint_args || (run.load.empty() && run.pretrained_checkpoint.empty())) return;
  const auto checkpoint = checkpoint_of_model(run);
  if (!checkpoint) {
    if (flags.given("--num-layers")) return;
    throw InputMissingError("--use-checkpoint-args: {} has no checkpoint",
                            directory_of_model(run).string());
  }
  use_model_arguments(flags, checkpoint->manifest().arguments);
  use_tokenizer(*checkpoint, config.tokenizer.tokenizer_type, flags);
}

}  // namespace phalanx
