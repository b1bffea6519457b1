#include "phalanx/hugging_face/config_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/json_text.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx::hugging_face {
namespace {

using Json = nlohmann::json;

// Some are long, because of label tables; but none is this long.
constexpr std::int64_t kLongestConfig = std::int64_t{16} << 20;
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMostItems = 65534;

std::string limited_text(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kLongestConfig) {
    throw DataError("{}: {} bytes are more than the limit of {}", path.string(), bytes,
                    kLongestConfig);
  }
  return read_file(path);
}

std::optional<std::int64_t> integer_of(const Json& value) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<std::int64_t>();
}

bool is_finite(const Json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  return !value.is_structured() || std::ranges::all_of(value, is_finite);
}

bool says_something(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return !value.empty();
  return !value.is_null() && value != false && value != 0;
}

// A value, for a message.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace

ConfigFile::ConfigFile(const std::filesystem::path& path)
    : ConfigFile(limited_text(path), path.string()) {}

ConfigFile::ConfigFile(std::string_view text, std::string where)
    : document_(std::make_shared<const Json>(parse_python_json(text, where))),
      value_(document_.get()),
      where_(std::move(where)),
      known_(std::make_shared<std::set<std::string>>()),
      skipped_(std::make_shared<std::set<std::string>>()),
      aliases_(std::make_shared<std::map<std::string, std::string>>()),
      without_effect_(std::make_shared<std::vector<std::string>>()) {
  if (!value_->is_object()) throw DataError("{}: not a JSON object", where_);
}

ConfigFile::ConfigFile(const ConfigFile& file, const Json& value, const std::string& key)
    : document_(file.document_),
      value_(&value),
      where_(file.where_ + ": " + key),
      key_(file.key_ + key + "."),
      known_(std::make_shared<std::set<std::string>>()),
      skipped_(std::make_shared<std::set<std::string>>()),
      aliases_(std::make_shared<std::map<std::string, std::string>>()),
      without_effect_(file.without_effect_) {}

const Json* ConfigFile::find(const std::string& key) const {
  known_->insert(key);
  const auto found = value_->find(key);
  if (found != value_->end() && !found->is_null()) return &*found;
  const auto alias = aliases_->find(key);
  return alias == aliases_->end() ? nullptr : find(alias->second);
}

const Json& ConfigFile::need(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) throw DataError("{}: '{}' is missing", where_, key);
  return *found;
}

bool ConfigFile::has(const std::string& key) const { return value_->contains(key); }

bool ConfigFile::is_null(const std::string& key) const {
  return has(key) && value_->at(key).is_null();
}

std::int64_t ConfigFile::integer(const std::string& key, std::int64_t low, std::int64_t high,
                                 std::optional<std::int64_t> absent) const {
  const Json* found = find(key);
  if (found == nullptr && absent) return *absent;
  const auto value = integer_of(need(key));
  if (!value || *value < low || *value > high) {
    throw DataError("{}: '{}' must be an integer from {} to {}", where_, key, low, high);
  }
  return *value;
}

double ConfigFile::number(const std::string& key, std::optional<double> absent) const {
  const Json* found = find(key);
  if (found == nullptr && absent) return *absent;
  const Json& value = need(key);
  if (!value.is_number()) throw DataError("{}: '{}' must be a number", where_, key);
  const double number = value.get<double>();
  if (!std::isfinite(number)) {
    throw DataError("{}: '{}' is {}, and must be a number", where_, key, python_name(number));
  }
  return number;
}

bool ConfigFile::boolean(const std::string& key, bool absent) const {
  const Json* found = find(key);
  if (found == nullptr) return absent;
  if (!found->is_boolean()) throw DataError("{}: '{}' must be true or false", where_, key);
  return found->get<bool>();
}

std::string ConfigFile::text(const std::string& key, std::optional<std::string> absent) const {
  const Json* found = find(key);
  if (found == nullptr && absent) return *absent;
  const Json& value = need(key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText) {
    throw DataError("{}: '{}' must be a string of at most {} bytes", where_, key, kLongestText);
  }
  return value.get<std::string>();
}

std::vector<std::string> ConfigFile::texts(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  const auto is_text = [](const Json& item) {
    return item.is_string() && item.get_ref<const std::string&>().size() <= kLongestText;
  };
  if (!found->is_array() || found->size() > kMostItems || !std::ranges::all_of(*found, is_text)) {
    throw DataError("{}: '{}' must be a list of strings", where_, key);
  }
  return found->get<std::vector<std::string>>();
}

std::vector<std::int64_t> ConfigFile::ids(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  std::vector<std::int64_t> ids;
  const auto add = [&](const Json& item) {
    const auto id = integer_of(item);
    if (!id || *id < -1 || *id > kMostInt32) {
      throw DataError("{}: '{}' must be a token id or a list of them", where_, key);
    }
    ids.push_back(*id);
  };
  if (!found->is_array()) {
    add(*found);
  } else if (found->size() > kMostItems) {
    throw DataError("{}: '{}' has {} ids", where_, key, found->size());
  } else {
    for (const Json& item : *found) add(item);
  }
  return ids;
}

std::vector<std::int64_t> ConfigFile::integers(const std::string& key, std::int64_t low,
                                               std::int64_t high) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  std::vector<std::int64_t> values;
  const auto fail = [&] {
    throw DataError("{}: '{}' must be a list of integers from {} to {}", where_, key, low, high);
  };
  if (!found->is_array() || found->size() > kMostItems) fail();
  for (const Json& item : *found) {
    const auto value = integer_of(item);
    if (!value || *value < low || *value > high) fail();
    values.push_back(*value);
  }
  return values;
}

std::optional<ConfigFile> ConfigFile::object(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_object()) throw DataError("{}: '{}' must be an object", where_, key);
  return ConfigFile(*this, *found, key);
}

double ConfigFile::dropout(const std::string& key, double absent) const {
  const double value = number(key, absent);
  if (!(value >= 0.0 && value < 1.0)) {
    throw DataError("{}: '{}' is {}, not from 0 to below 1", where_, key, value);
  }
  return value;
}

void ConfigFile::refuse(const std::string& key, std::string_view what) const {
  const Json* found = find(key);
  if (found == nullptr || *found == false) return;
  throw ConfigError("{}: '{}': {}", where_, key, what);
}

bool ConfigFile::says(const std::string& key) const {
  const Json* found = find(key);
  return found != nullptr && says_something(*found);
}

std::vector<std::string> ConfigFile::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

void ConfigFile::expect(const std::string& key, bool value, bool absent) const {
  if (boolean(key, absent) == value) return;
  throw ConfigError("{}: '{}' is {}: Phalanx has no such model, only {}", where_, key, !value,
                    value);
}

std::string ConfigFile::text_without(std::span<const std::string_view> keys) const {
  Json others = *value_;
  for (const std::string_view key : keys) others.erase(std::string(key));
  for (auto item = others.begin(); item != others.end();) {
    if (is_finite(item.value())) {
      ++item;
      continue;
    }
    log_warning("{}: '{}' has NaN or Infinity, which JSON has not: left out", where_, item.key());
    item = others.erase(item);
  }
  return others.empty() ? std::string() : others.dump();
}

void ConfigFile::also_called(const std::string& key, const std::string& alias) const {
  known_->insert(alias);
  const Json* of_key = find(key);
  const Json* of_alias = find(alias);
  if (of_key != nullptr && of_alias != nullptr && *of_key != *of_alias) {
    throw ConfigError("{}: '{}' is {} and '{}' is {}: they are one thing, remove the wrong one",
                      where_, key, shown(*of_key), alias, shown(*of_alias));
  }
  (*aliases_)[key] = alias;
}

void ConfigFile::skip(std::string_view key) const {
  known_->insert(std::string(key));
  skipped_->insert(std::string(key));
}

void ConfigFile::without_effect(const std::string& key, std::string_view why) const {
  const std::string entry = key_ + key + " (";
  const auto is_of_key = [&](const std::string& other) { return other.starts_with(entry); };
  if (!says(key) || std::ranges::any_of(*without_effect_, is_of_key)) return;
  without_effect_->push_back(entry + std::string(why) + ")");
}

void ConfigFile::warn(std::string_view text) const { log_warning("{}: {}", where_, text); }

std::vector<std::string> ConfigFile::ignored() const {
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) {
    if (!known_->contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

std::vector<std::string> ConfigFile::unused(bool all) const {
  std::vector<std::string> keys = *without_effect_;
  for (const auto& item : value_->items()) {
    const bool is_skipped = skipped_->contains(item.key());
    if (is_skipped ? all : !known_->contains(item.key()) && (all || says_something(item.value()))) {
      keys.push_back(item.key());
    }
  }
  return keys;
}

void ConfigFile::warn_of_ignored() const {
  std::string names;
  for (const std::string& key : ignored()) {
    if (says_something(value_->at(key))) names += (names.empty() ? "" : ", ") + key;
  }
  if (!names.empty()) log_warning("{}: not understood, nothing depends on it: {}", where_, names);
}

}  // namespace phalanx::hugging_face
