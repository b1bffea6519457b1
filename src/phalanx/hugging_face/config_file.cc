#include "phalanx/hugging_face/config_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/file.h"
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

}  // namespace

ConfigFile::ConfigFile(const std::filesystem::path& path)
    : ConfigFile(limited_text(path), path.string()) {}

ConfigFile::ConfigFile(std::string_view text, std::string where)
    : document_(std::make_shared<const Json>(parse_strict_json(text, where))),
      value_(document_.get()),
      where_(std::move(where)),
      known_(std::make_shared<std::set<std::string>>()) {
  if (!value_->is_object()) throw DataError("{}: not a JSON object", where_);
}

ConfigFile::ConfigFile(std::shared_ptr<const Json> document, const Json& value, std::string where)
    : document_(std::move(document)),
      value_(&value),
      where_(std::move(where)),
      known_(std::make_shared<std::set<std::string>>()) {}

const Json* ConfigFile::find(const std::string& key) const {
  known_->insert(key);
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
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
  return value.get<double>();
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
  return ConfigFile(document_, *found, where_ + ": " + key);
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
  if (found == nullptr || *found == false || *found == 0) return false;
  const bool has_items = found->is_array() || found->is_object();
  return !(has_items && found->empty()) &&
         !(found->is_string() && found->get_ref<const std::string&>().empty());
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
  return others.empty() ? std::string() : others.dump();
}

void ConfigFile::skip(std::string_view key) const { known_->insert(std::string(key)); }

void ConfigFile::warn(std::string_view text) const { log_warning("{}: {}", where_, text); }

std::vector<std::string> ConfigFile::ignored() const {
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) {
    if (!known_->contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

}  // namespace phalanx::hugging_face
