#include "phalanx/cli/model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/launch/python_script.h"

namespace phalanx {
namespace {

std::string names_of_families() {
  std::string names;
  for (const auto& family : known_families()) {
    names += fmt::format("{}{}", names.empty() ? "" : "|", family->name());
  }
  return names;
}

// Models that have another name than their family.
struct KnownModel {
  std::string_view beginning;  // beginning of the model's name, in lower case
  std::string_view family;
  std::string_view file;  // the example with its flags; empty: none is needed
};
constexpr KnownModel kKnownModels[] = {
    {"llama", "gpt", "examples/llama3_8b.yaml"},
    {"mistral", "gpt", "examples/mistral_7b.yaml"},
    {"mixtral", "gpt", "examples/mixtral_8x7b.yaml"},
    {"qwen3", "gpt", "examples/qwen3_30b_a3b.yaml"},
    {"qwen", "gpt", "examples/qwen2_7b.yaml"},
    {"gpt", "gpt", "examples/pretrain_gpt_345m.yaml"},
    {"bert", "bert", ""},
    {"t5", "t5", ""},
    {"flan", "t5", ""},
};

// "Llama-3" of "meta-llama/Llama-3", in small letters.
std::string plain_name(std::string_view word) {
  std::string name(word.substr(word.rfind('/') + 1));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// The message for a word that is not a family's name.
std::string advice(std::string_view command, const std::string& word) {
  if (const auto script = launch::command_of_script(word)) {
    return fmt::format("{}: nothing runs under Python here; give its flags to phalanx {}", word,
                       *script);
  }
  const std::string name = plain_name(word);
  const auto* const known = std::ranges::find_if(
      kKnownModels, [&](const KnownModel& model) { return name.starts_with(model.beginning); });
  if (known == std::end(kKnownModels)) {
    std::vector<std::string> names;
    for (const auto& family : known_families()) names.emplace_back(family->name());
    const auto meant = nearest(name, names);
    return fmt::format("unknown model {}: {} {} FLAGS{}", word, command, names_of_families(),
                       meant ? " (did you mean " + *meant + "?)" : "");
  }
  if (known->file.empty()) {
    return fmt::format("{} is a model of the family {}: {} {} FLAGS (docs/bert-and-t5.md)", word,
                       known->family, command, known->family);
  }
  return fmt::format(
      "{} is a model of the family {}, with flags of its own: {} {} --yaml-cfg {} has them, and "
      "phalanx import hf brings a published model with its flags (docs/llama-and-hugging-face.md)",
      word, known->family, command, known->family, known->file);
}

}  // namespace

NamedFamily named_family(std::string_view command, const Arguments& arguments) {
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  const auto typed_with = [&](const ModelFamily& family) {
    return fmt::format("{} {}", command, family.name());
  };
  if (!arguments.empty() && is_help(arguments[0])) {
    const auto& first = known_families().front();
    return {typed_with(*first), first, arguments};
  }
  if (arguments.empty() || arguments[0].starts_with("-")) {
    throw UsageError("name the model first: {} {} FLAGS", command, names_of_families());
  }
  auto family = find_family(arguments[0]);
  if (family == nullptr) {
    throw UsageError("{}", advice(command, arguments[0]));
  }
  std::string typed = typed_with(*family);
  return {std::move(typed), std::move(family), {arguments.begin() + 1, arguments.end()}};
}

void use_family(const std::shared_ptr<const ModelFamily>& family, TrainConfig& config) {
  config.model.family = family->name();
  if (find_family(family->name()) != family) config.family = family;
}

void use_family_defaults(FlagSet& flags, const ModelFamily& family) {
  for (const auto& [flag, value] : family.defaults()) flags.set_default(flag, std::string(value));
}

}  // namespace phalanx
