#include "phalanx/tokenizer/hf/beside_files.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 7> kRoles = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
// Classes whose pre-tokenizer is ByteLevel with tokenizer_config.json's add_prefix_space (absent:
// false), in both versions.
constexpr std::array<std::string_view, 7> kByteLevelClasses = {
    "GPT2Tokenizer",    "RobertaTokenizer", "BlenderbotTokenizer", "CodeGenTokenizer",
    "GPTNeoXTokenizer", "LukeTokenizer",    "Qwen2Tokenizer"};
constexpr std::string_view kAnyClass = "TokenizersBackend";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

template <typename List>
bool is_in(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::optional<JsonNode> find(const std::optional<JsonNode>& node, std::string_view key) {
  return node ? node->find(key) : std::nullopt;
}

std::string text_of(const std::optional<JsonNode>& node, std::string_view key) {
  const auto found = find(node, key);
  return found && found->is_string() ? found->text() : std::string();
}

std::string type_of(const JsonNode& root, std::string_view member) {
  return text_of(root.find(member), "type");
}

// A token that is named by its content, or by an object that has it.
AddedToken named_token(const JsonNode& node) {
  if (node.is_object()) {
    AddedToken token = read_added_token(node, 0);
    token.special = true;
    return token;
  }
  return {.content = node.text(), .normalized = false, .special = true};
}

bool has_token(const std::vector<BesideFiles::Token>& tokens, const std::string& content) {
  return std::ranges::any_of(tokens, [&](const auto& one) { return one.token.content == content; });
}

void add_once(std::vector<BesideFiles::Token>& tokens, const JsonNode& node) {
  AddedToken token = named_token(node);
  if (token.content.empty() || has_token(tokens, token.content)) return;
  tokens.push_back({.token = std::move(token), .id = std::nullopt, .place = node});
}

// Whether the file's pipeline is the one that the class makes in version 5.
bool is_of_class(const JsonNode& root, std::string_view name) {
  const std::string normalizer = type_of(root, "normalizer");
  const std::string pre = type_of(root, "pre_tokenizer");
  if (name == "LlamaTokenizer") return normalizer.empty() && pre == "Metaspace";
  if (name == "BertTokenizer") return normalizer == "BertNormalizer" && pre == "BertPreTokenizer";
  if (name == "GPT2Tokenizer") return normalizer.empty() && pre == "ByteLevel";
  if (name != "Qwen2Tokenizer") return true;
  if (normalizer != "NFC" || pre != "Sequence") return false;
  const auto steps = root["pre_tokenizer"]["pretokenizers"].elements();
  return steps.size() == 2 && text_of(find(steps[0], "pattern"), "Regex") == kQwen2Pattern &&
         text_of(steps[1], "type") == "ByteLevel";
}

}  // namespace

BesideFiles::BesideFiles(const std::filesystem::path& directory)
    : place_((directory / kFilesBesideTokenizer[0]).string()) {
  const auto read = [&](std::size_t number) -> std::optional<JsonNode> {
    const auto file = directory / kFilesBesideTokenizer[number];
    if (!std::filesystem::exists(file)) return std::nullopt;
    return JsonNode::read(file);
  };
  config_ = read(0);
  map_ = read(1);
  added_ = read(2);
  model_ = read(3);
  try {
    generation_ = read(4);
  } catch (const DataError& error) {
    log_warning("{}: what it says is not taken", error.what());
  }
  compare_roles();
}

std::vector<BesideFiles::Token> BesideFiles::tokens() const {
  std::vector<Token> tokens;
  add_listed(tokens);
  add_named(tokens);
  add_extra(tokens);
  return tokens;
}

// A list in tokenizer_config.json counts alone; without one, added_tokens.json's does. In the order
// of ids.
void BesideFiles::add_listed(std::vector<Token>& tokens) const {
  constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max() - 1;
  if (const auto list = find(config_, "added_tokens_decoder")) {
    for (const auto& [id, node] : list->members()) {
      const auto number = parse_number<std::int64_t>(id);
      if (!number || *number < 0 || *number > kMostId) node.reject("{} is no id", shown_text(id));
      tokens.push_back(
          {.token = read_added_token(node, 0), .id = *number, .place = node, .is_listed = true});
    }
  } else if (added_) {
    std::vector<Token> named;
    add_named(named);
    add_extra(named);
    for (const auto& [content, node] : added_->members()) {
      const bool special = has_token(named, content);
      tokens.push_back({.token = {.content = content, .normalized = !special, .special = special},
                        .id = node.integer(0, kMostId),
                        .place = node});
    }
  }
  std::ranges::stable_sort(tokens, {}, &Token::id);
}

void BesideFiles::add_named(std::vector<Token>& tokens) const {
  for (const std::string_view key : kRoles) {
    if (const auto node = role(key)) add_once(tokens, *node);
  }
  // Tokens of other kinds of models: "image_token".
  if (!config_) return;
  for (const auto& [key, node] : config_->members()) {
    if (key.ends_with("_token") && node.is_string() && !is_in(kRoles, key)) add_once(tokens, node);
  }
}

void BesideFiles::add_extra(std::vector<Token>& tokens) const {
  const auto add_all = [&](const std::optional<JsonNode>& list) {
    if (!list) return false;
    bool any = false;
    if (list->is_object()) {
      for (const auto& [key, node] : list->members()) {
        add_once(tokens, node);
        any = true;
      }
    } else {
      for (const JsonNode& node : list->elements()) {
        add_once(tokens, node);
        any = true;
      }
    }
    return any;
  };
  const bool has_own = add_all(find(config_, "extra_special_tokens")) ||
                       add_all(find(config_, "additional_special_tokens"));
  if (find(config_, "added_tokens_decoder")) return;
  add_all(find(map_, "extra_special_tokens"));
  if (!has_own) add_all(find(map_, "additional_special_tokens"));
}

bool BesideFiles::map_counts() const { return map_ && !find(config_, "added_tokens_decoder"); }

std::optional<JsonNode> BesideFiles::role(std::string_view key) const {
  const auto in_map = map_counts() ? find(map_, key) : std::nullopt;
  return in_map ? in_map : find(config_, key);
}

void BesideFiles::compare_roles() const {
  for (const std::string_view key : kRoles) {
    const auto in_config = find(config_, key);
    const auto in_map = find(map_, key);
    if (!in_config || !in_map) continue;
    const std::string of_config = named_token(*in_config).content;
    const std::string of_map = named_token(*in_map).content;
    if (of_config == of_map) continue;
    log_warning("{}: {}, but {} in tokenizer_config.json: the {} counts, as in transformers",
                in_map->place(), shown_text(of_map), shown_text(of_config),
                map_counts() ? "former" : "latter");
  }
}

bool BesideFiles::splits_special() const {
  const auto node = find(config_, "split_special_tokens");
  return node && node->flag();
}

// As version 5 chooses it, without "Fast".
std::string BesideFiles::class_name(const JsonNode& root) const {
  const std::string type = text_of(model_, "model_type");
  std::string name = text_of(config_, "tokenizer_class");
  if (name.empty()) name = text_of(model_, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (type == "mistral" || type == "mixtral") return std::string(kAnyClass);
  if (name.empty() || type == "qwen2") {
    if (type.starts_with("qwen")) return "Qwen2Tokenizer";
    if (type == "gpt2") return "GPT2Tokenizer";
    if (type == "bert" || type == "megatron-bert") return "BertTokenizer";
    return name.empty() ? std::string(kAnyClass) : name;
  }
  const bool is_byte_level = type_of(root, "pre_tokenizer") == "ByteLevel";
  if (name == "LlamaTokenizer" && is_byte_level) return std::string(kAnyClass);
  return name;
}

JsonNode BesideFiles::obeyed(const JsonNode& root) const {
  if (!config_ && !model_) return root;
  const std::string name = class_name(root);
  compare_pipeline(root, name);
  compare_added(root, name);
  if (type_of(root, "pre_tokenizer") == "ByteLevel") return with_prefix_space(root, name);
  if (name == "BertTokenizer" && type_of(root, "normalizer") == "BertNormalizer") {
    return with_bert_switches(root);
  }
  return root;
}

JsonNode BesideFiles::with_prefix_space(const JsonNode& root, std::string_view name) const {
  constexpr std::string_view kKey = "add_prefix_space";
  const bool in_file = root["pre_tokenizer"].flag_or(kKey, true);
  const auto said = find(config_, kKey);
  const bool wanted = said && said->flag();
  if (wanted == in_file) return root;
  const bool counts = is_in(kByteLevelClasses, name);
  log_warning("{}: {} is {}, but {} in tokenizer.json: {} counts, as in transformers{}", place_,
              kKey, said ? (wanted ? "true" : "false") : "not there, which is false", in_file,
              counts ? fmt::format("the former, for the class is {},", name) : "the latter",
              counts ? "" : " 5; version 4 took the former");
  return counts ? root.with("pre_tokenizer", kKey, wanted) : root;
}

JsonNode BesideFiles::with_bert_switches(const JsonNode& root) const {
  struct Switch {
    std::string_view config, file;
    std::optional<bool> absent;
  };
  constexpr std::array<Switch, 3> kSwitches = {
      {{"do_lower_case", "lowercase", true},
       {"tokenize_chinese_chars", "handle_chinese_chars", true},
       {"strip_accents", "strip_accents", std::nullopt}}};
  JsonNode result = root;
  for (const Switch& one : kSwitches) {
    const auto said = find(config_, one.config);
    const auto in_file = find(root.find("normalizer"), one.file);
    const auto wanted = said ? std::optional<bool>(said->flag()) : one.absent;
    const auto has = in_file ? std::optional<bool>(in_file->flag()) : std::nullopt;
    if (wanted == has) continue;
    log_warning(
        "{}: {} contradicts normalizer.{} of tokenizer.json: the former counts, as in "
        "transformers, for the class is BertTokenizer",
        place_, one.config, one.file);
    result = result.with("normalizer", one.file, wanted);
  }
  return result;
}

void BesideFiles::compare_pipeline(const JsonNode& root, std::string_view name) const {
  if (is_of_class(root, name)) return;
  log_warning(
      "{}: the class is {}, whose rules of cutting text version 5 of transformers takes instead of "
      "tokenizer.json's, which are others: tokenizer.json counts here, as in version 4",
      place_, name);
}

// Version 4's Llama class goes by add_bos_token and add_eos_token.
void BesideFiles::compare_added(const JsonNode& root, std::string_view name) const {
  if (name != "LlamaTokenizer") return;
  const auto post = root.find("post_processor");
  for (const std::string_view key : {"add_bos_token", "add_eos_token"}) {
    const auto said = find(config_, key);
    const auto token = role(key == "add_bos_token" ? "bos_token" : "eos_token");
    if (!said || !token) continue;
    const std::string content = named_token(*token).content;
    const bool adds = post && post->has("special_tokens") && (*post)["special_tokens"].has(content);
    if (said->flag() == adds) continue;
    log_warning(
        "{}: {} is {}, but tokenizer.json's post_processor does {}add {}: the latter counts, as in "
        "transformers 5; version 4 took the former",
        place_, key, said->flag(), adds ? "" : "not ", shown_text(content));
  }
}

}  // namespace phalanx
