#include "phalanx/tokenizer/hf/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "phalanx/base/file.h"
#include "phalanx/base/json_text.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 64;

// Checks a text before it is parsed to values: values would lack duplicate keys, and walking them
// recurses for each level.
class StructureCheck final : public nlohmann::json_sax<Json> {
 public:
  // `shown`: the text as it is in the file.
  StructureCheck(const std::string& file, std::string_view shown) : file_(file), shown_(shown) {}

  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& text) override {
    if (!keys_.back().insert(text).second) {
      throw DataError("{}: key {} comes twice in one object", file_, shown_text(text));
    }
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) override {
    throw DataError("{}: not valid JSON: {}", file_, json_fault(shown_, byte));
  }

 private:
  bool enter() {
    if (keys_.size() == kDeepest) {
      throw DataError("{}: values are nested more than {} deep", file_, kDeepest);
    }
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  const std::string& file_;
  std::string_view shown_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects around; empty for arrays
};

void restore_numbers(Json& value) {
  if (value.is_string()) {
    const auto number = python_number(value.get_ref<const std::string&>());
    if (number) value = *number;
  } else if (value.is_structured()) {
    for (Json& item : value) restore_numbers(item);
  }
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && key.size() <= 60 && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

std::string shown_text(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  // Only the shown part of a long text is converted.
  const std::string json = Json(std::string(text.substr(0, 4 * kLongest)))
                               .dump(-1, ' ', true, Json::error_handler_t::replace);
  return json.size() <= kLongest ? json : json.substr(0, kLongest) + "...";
}

struct JsonNode::Document {
  std::string name;
  Json root;
};

JsonNode JsonNode::read(const std::filesystem::path& file) {
  return parse(read_file(file), file.string());
}

JsonNode JsonNode::parse(std::string_view text, std::string name) {
  auto document = std::make_shared<Document>();
  document->name = std::move(name);
  const auto without = without_python_numbers(text);
  StructureCheck check(document->name, text);
  const std::string_view readable = without ? std::string_view(*without) : text;
  Json::sax_parse(readable, &check);
  document->root = Json::parse(readable);
  if (without) restore_numbers(document->root);
  const Json* root = &document->root;
  return {std::move(document), root, "$"};
}

bool JsonNode::is_null() const { return value_->is_null(); }
bool JsonNode::is_string() const { return value_->is_string(); }
bool JsonNode::is_array() const { return value_->is_array(); }
bool JsonNode::is_object() const { return value_->is_object(); }

std::string JsonNode::place() const { return document_->name + ": " + path_; }

void JsonNode::expected(std::string_view what) const {
  reject("expected {}, not {}", what, is_string() ? shown_text(text()) : value_->type_name());
}

std::string JsonNode::path_of(std::string_view key) const {
  return is_plain_key(key) ? path_ + "." + std::string(key) : path_ + "[" + shown_text(key) + "]";
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!is_object()) expected("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(document_, &*found, path_of(key));
}

JsonNode JsonNode::operator[](std::string_view key) const {
  if (auto found = find(key)) return *std::move(found);
  reject("{} is missing", key);
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!is_object()) expected("an object");
  std::vector<std::pair<std::string, JsonNode>> all;
  all.reserve(value_->size());
  for (const auto& [key, value] : value_->items()) {
    all.emplace_back(key, JsonNode(document_, &value, path_of(key)));
  }
  return all;
}

void JsonNode::allow(std::initializer_list<std::string_view> keys) const {
  if (!is_object()) expected("an object");
  for (const auto& [key, value] : value_->items()) {
    if (value.is_null() || std::ranges::find(keys, key) != keys.end()) continue;
    JsonNode(document_, &value, path_of(key)).refuse("this member is not supported");
  }
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!is_array()) expected("a list");
  std::vector<JsonNode> all;
  all.reserve(value_->size());
  for (const Json& value : *value_) {
    all.push_back(JsonNode(document_, &value, fmt::format("{}[{}]", path_, all.size())));
  }
  return all;
}

JsonNode JsonNode::with(std::string_view member, std::string_view key,
                        std::optional<bool> value) const {
  auto document = std::make_shared<Document>(*document_);
  document->root[std::string(member)][std::string(key)] = value ? Json(*value) : Json();
  const Json* root = &document->root;
  return {std::move(document), root, "$"};
}

std::string JsonNode::text() const {
  if (!is_string()) expected("a string");
  return value_->get_ref<const std::string&>();
}

char32_t JsonNode::character() const {
  const std::string whole = text();
  std::string_view rest = whole;
  if (rest.empty()) expected("one character");
  const char32_t first = take_character(rest);
  if (!rest.empty()) expected("one character");
  return first;
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

std::int64_t JsonNode::integer(std::int64_t least, std::int64_t most) const {
  if (!value_->is_number_integer()) expected("an integer");
  // An unsigned one may be too large for int64.
  const bool fits = !value_->is_number_unsigned() ||
                    value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  if (!fits || value_->get<std::int64_t>() < least || value_->get<std::int64_t>() > most) {
    reject("{} is not from {} to {}", value_->dump(), least, most);
  }
  return value_->get<std::int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) expected("a number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) reject("expected a number, not {}", python_name(number));
  return number;
}

std::string JsonNode::text_or(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->text() : std::string(otherwise);
}

bool JsonNode::flag_or(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->flag() : otherwise;
}

}  // namespace phalanx
