#include "phalanx/chat/template_file.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "phalanx/base/file.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

std::filesystem::path folder_of(const std::filesystem::path& tokenizer_model) {
  return std::filesystem::is_directory(tokenizer_model) ? tokenizer_model
                                                        : tokenizer_model.parent_path();
}

std::filesystem::path config_of(const std::filesystem::path& tokenizer_model) {
  if (tokenizer_model.empty()) return {};
  const auto file = folder_of(tokenizer_model) / "tokenizer_config.json";
  return path_exists(file) ? file : std::filesystem::path();
}

Json read_json(const std::filesystem::path& file) {
  Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) throw DataError("{}: it is no JSON object", file.string());
  return json;
}

TemplateText template_of_config(const std::filesystem::path& file, const Json& value) {
  const std::string name = file.string() + ": chat_template";
  if (value.is_string()) return {value.get<std::string>(), name};
  if (!value.is_array()) throw DataError("{}: it is neither a text nor a list", name);
  std::string names;
  for (const Json& entry : value) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template") || !entry["template"].is_string()) {
      throw DataError("{}: an entry has no texts \"name\" and \"template\"", name);
    }
    const auto entry_name = entry["name"].get<std::string>();
    if (entry_name == "default") return {entry["template"].get<std::string>(), name};
    names += (names.empty() ? "" : ", ") + entry_name;
  }
  throw ConfigError(
      "{}: none of the templates is called 'default', they are: {}; --chat-template "
      "FILE names one",
      name, names);
}

}  // namespace

TemplateText find_template_text(const std::filesystem::path& file,
                                const std::filesystem::path& tokenizer_model) {
  if (!file.empty()) return {read_file(file), file.string()};
  if (!tokenizer_model.empty()) {
    const auto beside = folder_of(tokenizer_model) / kChatTemplateName;
    if (path_exists(beside)) return {read_file(beside), beside.string()};
  }
  if (const auto config = config_of(tokenizer_model); !config.empty()) {
    const Json json = read_json(config);
    if (const auto found = json.find("chat_template"); found != json.end() && !found->is_null()) {
      return template_of_config(config, *found);
    }
  }
  throw ConfigError(
      "the tokenizer has no chat template beside it (chat_template.jinja, or "
      "\"chat_template\" in tokenizer_config.json): --chat-template FILE names one");
}

ChatTemplate find_chat_template(const std::filesystem::path& file,
                                const std::filesystem::path& tokenizer_model) {
  const TemplateText found = find_template_text(file, tokenizer_model);
  return ChatTemplate::parse(found.text, found.name);
}

std::vector<std::pair<std::string, std::string>> template_tokens(
    const Tokenizer& tokenizer, const std::filesystem::path& tokenizer_model) {
  std::vector<std::pair<std::string, std::string>> tokens;
  const SpecialTokens& special = tokenizer.special_tokens();
  const std::array<std::pair<const char*, std::optional<std::int32_t>>, 7> known = {
      {{"bos_token", special.bos},
       {"eos_token", special.eos},
       {"unk_token", special.unk},
       {"sep_token", special.sep},
       {"pad_token", special.pad},
       {"cls_token", special.cls},
       {"mask_token", special.mask}}};
  const auto config = config_of(tokenizer_model);
  if (config.empty()) {
    for (const auto& [name, id] : known) {
      if (id) tokens.emplace_back(name, tokenizer.piece(*id));
    }
    return tokens;
  }
  const Json json = read_json(config);
  for (const auto& [name, id] : known) {
    const auto found = json.find(name);
    if (found == json.end() || found->is_null()) continue;
    const Json content = found->is_object() ? found->value("content", Json()) : *found;
    if (!content.is_string()) throw DataError("{}: \"{}\" is no text", config.string(), name);
    tokens.emplace_back(name, content.get<std::string>());
  }
  return tokens;
}

std::chrono::year_month_day template_day(const std::string& text) {
  std::optional<int> year;
  std::optional<unsigned> month;
  std::optional<unsigned> day;
  if (text.size() == 10 && text[4] == '-' && text[7] == '-') {
    year = parse_number<int>(text.substr(0, 4));
    month = parse_number<unsigned>(text.substr(5, 2));
    day = parse_number<unsigned>(text.substr(8, 2));
  }
  if (year && month && day) {
    const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                           std::chrono::day(*day)};
    if (date.ok()) return date;
  }
  throw ConfigError("--chat-template-date {}: it is no day, YYYY-MM-DD", text);
}

}  // namespace phalanx
