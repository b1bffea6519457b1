#include "phalanx/start/imported_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/chat/template_file.h"
#include "phalanx/flags/model_arguments.h"
#include "phalanx/hugging_face/kept_files.h"

namespace phalanx {
namespace {

// Whether the tokenizer is the same: the same type, and the same bytes in its files.
bool has_its_tokenizer(const TrainConfig& config, const RunInputs& inputs,
                       const Manifest& manifest) {
  const auto type = manifest.arguments.find("--tokenizer-type");
  if (type != manifest.arguments.end() && type->second != config.tokenizer.tokenizer_type) {
    return false;
  }
  const auto is_changed = [&](const Manifest::InputFile& now) {
    return !now.copy.empty() && now.flag != kChatTemplateFlag &&
           std::ranges::any_of(manifest.input_files, [&](const Manifest::InputFile& then) {
             return then.flag == now.flag && then.copy == now.copy && then.xxh3 != now.xxh3;
           });
  };
  return std::ranges::none_of(inputs.files, is_changed);
}

// What does not depend on the tokenizer: what the model is, and the token that a decoder begins
// with.
bool outlives_tokenizer(std::string_view argument) {
  constexpr std::array kLasting = {kConfigArchitecture, kConfigDecoderStart, kConfigRouterLoss,
                                   kConfigRouterLogits, kConfigRouterJitter, kTokenizerReplaced};
  return std::ranges::find(kLasting, argument) != kLasting.end();
}

}  // namespace

ImportedParts imported_parts(const TrainConfig& config, const RunInputs& inputs,
                             const Manifest& manifest) {
  const bool is_same = has_its_tokenizer(config, inputs, manifest);
  ImportedParts parts;
  for (const auto& [name, value] : manifest.arguments) {
    if (!is_kept_of_import(name)) continue;
    if (is_same || outlives_tokenizer(name)) parts.arguments[name] = value;
  }
  if (parts.arguments.contains(std::string(kConfigArchitecture)) && !is_same) {
    parts.arguments[std::string(kTokenizerReplaced)] = "true";
  }
  const auto is_taken = [&](const Manifest::InputFile& kept) {
    return std::ranges::any_of(inputs.copies,
                               [&](const InputCopy& copy) { return copy.name == kept.copy; });
  };
  std::vector<std::string> left;
  for (auto& file : hugging_face::kept_files_of(manifest.input_files)) {
    if (!is_same) {
      left.push_back(file.copy);
    } else if (!is_taken(file)) {
      parts.files.push_back(std::move(file));
    }
  }
  if (!left.empty()) {
    log_warning(
        "the tokenizer is not the one that the model was imported with: {}, which came with it, {} "
        "not kept",
        fmt::join(left, ", "), left.size() == 1 ? "is" : "are");
  }
  return parts;
}

void add_kept_files(const ImportedParts& parts, const CheckpointReader& checkpoint,
                    RunInputs& inputs) {
  for (const Manifest::InputFile& file : parts.files) {
    inputs.copies.push_back({.name = file.copy, .bytes = checkpoint.content_of(file.copy)});
    inputs.files.push_back(file);
  }
}

}  // namespace phalanx
