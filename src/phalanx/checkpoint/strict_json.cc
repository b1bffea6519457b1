#include "phalanx/checkpoint/strict_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/json_text.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 16;

// What an error message shows of a key: short, and without control characters.
std::string shown(const std::string& key) {
  constexpr std::size_t kLongest = 80;
  std::string text = json_string(std::string_view(key).substr(0, kLongest));
  if (key.size() > kLongest) text += "...";
  return text;
}

// Refuses two things that the parser accepts: equal keys (it keeps the last) and deep nesting. (The
// parser's callback could tell, but then the parser visits all members of an object again after
// each of them.)
class StructureCheck : public nlohmann::json_sax<Json> {
 public:
  explicit StructureCheck(std::string_view where) : where_(where) {}

  bool start_object(std::size_t /*elements*/) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    throw DataError("{}: the key {} comes twice", where_, shown(key));
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  // Other faults are the parser's to report.
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool enter() {
    if (++depth_ > kDeepest) throw DataError("{}: nested deeper than {} levels", where_, kDeepest);
    return true;
  }

  std::string where_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

// `shown`: the text as it is in the file, byte for byte at the same places.
Json parse(std::string_view text, std::string_view shown, std::string_view where) {
  StructureCheck check(where);
  try {
    Json::sax_parse(text.begin(), text.end(), &check);
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    throw DataError("{}: not JSON: {}", where, json_fault(shown, error.byte));
  } catch (const Json::exception&) {
    throw DataError("{}: a number is out of range", where);
  }
}

void restore_numbers(Json& value) {
  if (value.is_string()) {
    const auto number = python_number(value.get_ref<const std::string&>());
    if (number) value = *number;
  } else if (value.is_structured()) {
    for (Json& item : value) restore_numbers(item);
  }
}

}  // namespace

Json parse_strict_json(std::string_view text, std::string_view where) {
  return parse(text, text, where);
}

Json parse_python_json(std::string_view text, std::string_view where) {
  const auto without = without_python_numbers(text);
  if (!without) return parse(text, text, where);
  Json value = parse(*without, text, where);
  restore_numbers(value);
  return value;
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

JsonObject::JsonObject(const Json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value.is_object()) throw DataError("{}: not a JSON object", where_);
}

const Json& JsonObject::field(const std::string& key) {
  const auto found = value_.find(key);
  if (found == value_.end()) throw DataError("{}: '{}' is missing", where_, key);
  known_.insert(key);
  return *found;
}

std::int64_t JsonObject::checked_integer(const Json& value, const std::string& key,
                                         std::int64_t low, std::int64_t high) const {
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
          : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    throw DataError("{}: '{}' must hold integers from {} to {}", where_, key, low, high);
  }
  return value.get<std::int64_t>();
}

std::int64_t JsonObject::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  return checked_integer(field(key), key, low, high);
}

std::vector<std::int64_t> JsonObject::integers(const std::string& key, std::int64_t low,
                                               std::int64_t high) {
  std::vector<std::int64_t> values;
  for (const auto& value : array(key)) values.push_back(checked_integer(value, key, low, high));
  return values;
}

Shape JsonObject::shape(const std::string& key) {
  const auto extents = integers(key, 0, std::numeric_limits<std::int64_t>::max());
  if (extents.size() > kMaxRank) {
    throw DataError("{}: '{}' has {} extents, more than {}", where_, key, extents.size(), kMaxRank);
  }
  return Shape(extents);
}

std::uint64_t JsonObject::unsigned_integer(const std::string& key) {
  const Json& value = field(key);
  if (!value.is_number_unsigned()) {
    throw DataError("{}: '{}' must be an integer from 0 to 2^64 - 1", where_, key);
  }
  return value.get<std::uint64_t>();
}

double JsonObject::number(const std::string& key) {
  const Json& value = field(key);
  if (!value.is_number()) throw DataError("{}: '{}' must be a number", where_, key);
  return value.get<double>();
}

bool JsonObject::boolean(const std::string& key) {
  const Json& value = field(key);
  if (!value.is_boolean()) throw DataError("{}: '{}' must be true or false", where_, key);
  return value.get<bool>();
}

std::string JsonObject::checked_text(const Json& value, const std::string& key,
                                     std::size_t longest) const {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > longest) {
    throw DataError("{}: '{}' must be a string of at most {} bytes", where_, key, longest);
  }
  return value.get<std::string>();
}

std::string JsonObject::text(const std::string& key, std::size_t longest) {
  return checked_text(field(key), key, longest);
}

std::vector<std::string> JsonObject::texts(const std::string& key, std::size_t longest) {
  std::vector<std::string> texts;
  for (const auto& value : array(key)) texts.push_back(checked_text(value, key, longest));
  return texts;
}

std::uint64_t JsonObject::digest(const std::string& key) {
  const Json& value = field(key);
  const auto digest =
      value.is_string() ? digest_from_text(value.get_ref<const std::string&>()) : std::nullopt;
  if (!digest) throw DataError("{}: '{}' must be 16 hexadecimal digits", where_, key);
  return *digest;
}

std::optional<std::uint64_t> JsonObject::digest_or_null(const std::string& key) {
  if (field(key).is_null()) return std::nullopt;
  return digest(key);
}

const Json& JsonObject::array(const std::string& key) {
  const Json& value = field(key);
  if (!value.is_array()) throw DataError("{}: '{}' must be a list", where_, key);
  return value;
}

JsonObject JsonObject::object(const std::string& key) { return {field(key), where_ + ": " + key}; }

bool JsonObject::has(const std::string& key) const { return value_.contains(key); }

void JsonObject::finish() const {
  for (const auto& item : value_.items()) {
    if (!known_.contains(item.key())) {
      throw DataError("{}: the key {} is unknown", where_, shown(item.key()));
    }
  }
}

}  // namespace phalanx
