#include "phalanx/cli/chat_base.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/folder_tokenizer.h"
#include "phalanx/cli/hugging_face_commands.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/hugging_face/import.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// The name of the directory in --save that a folder is imported to.
constexpr std::string_view kBaseName = "base";

bool is_folder(const fs::path& load) {
  return path_exists(load / "config.json") && !path_exists(load / kManifestName) &&
         saved_checkpoints(load).empty();
}

void expect_gpt(std::string_view load, std::string_view family) {
  if (family == "gpt") return;
  throw ConfigError(
      "--load {}: the model is a {}, which continues no text: finetune chat trains GPTs (Llama, "
      "Mistral, Qwen2 among them)",
      load, family);
}

bool has_16_bits(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

bool is_on(const std::map<std::string, std::string>& arguments, const std::string& flag) {
  const auto found = arguments.find(flag);
  return found != arguments.end() && found->second == "true";
}

}  // namespace

ChatBase::ChatBase(const std::string& load, const std::string& save) : checkpoint_(load) {
  if (!path_exists(checkpoint_)) throw InputMissingError("--load {}: it is not there", load);
  if (is_folder(checkpoint_)) {
    read_folder(save);
  } else {
    read_checkpoint();
  }
}

void ChatBase::read_folder(const std::string& save) {
  const hugging_face::Import model(checkpoint_);
  expect_gpt(checkpoint_.string(), model.architecture().family);
  arguments_ = model.settings().arguments();
  const auto imported = fs::path(save) / kBaseName;
  const auto done = save.empty() ? std::nullopt : CheckpointReader::open_if_any(imported);
  if (done) {
    const auto& theirs = done->manifest().arguments;
    const auto other = std::ranges::find_if(arguments_, [&](const auto& argument) {
      const auto found = theirs.find(argument.first);
      return found == theirs.end() || found->second != argument.second;
    });
    if (other != arguments_.end()) {
      throw ConfigError(
          "{} was imported from another model than --load {}, where {} is {}: --save elsewhere, or "
          "remove {}",
          imported.string(), checkpoint_.string(), other->first, other->second, imported.string());
    }
    checkpoint_ = imported;
    return read_checkpoint();
  }
  folder_ = std::exchange(checkpoint_, imported);
  arguments_.merge(tokenizer_arguments(folder_tokenizer(model, true)));
  is_half_ = true;
  for (std::size_t row = 0; row < model.table().rows.size(); ++row) {
    is_half_ = is_half_ && has_16_bits(model.dtype(row));
  }
}

void ChatBase::read_checkpoint() {
  const auto checkpoint = CheckpointReader::open(checkpoint_, Verify::kNo);
  const Manifest& manifest = checkpoint.manifest();
  const auto family = manifest.arguments.find(std::string(kFamilyArgument));
  if (family != manifest.arguments.end()) expect_gpt(checkpoint_.string(), family->second);
  arguments_.clear();
  const bool has_optimizer = checkpoint.has_optimizer();
  is_half_ = is_on(manifest.arguments, "--bf16") || is_on(manifest.arguments, "--fp16") ||
             (!has_optimizer && std::ranges::all_of(manifest.tensors, [](const auto& tensor) {
               return has_16_bits(tensor.dtype);
             }));
}

void ChatBase::set_defaults(FlagSet& flags) const {
  if (!must_be_imported()) return;
  use_model_arguments(flags, arguments_);
  if (flags.given("--tokenizer-type")) return;
  for (const TrainFlag& flag : tokenizer_flags()) {
    const auto said = arguments_.find(std::string(flag.spec.name));
    if (said != arguments_.end()) flags.set_default(flag.spec.name, said->second);
  }
}

int ChatBase::import(CommandIo& io) const {
  log_info("{}: a folder of Hugging Face's: its weights are imported to {}, once", folder_.string(),
           checkpoint_.string());
  return run_import_hugging_face(io,
                                 {"--input", folder_.string(), "--output", checkpoint_.string()});
}

}  // namespace phalanx
