#include "phalanx/checkpoint/strict_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"

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

// The parser keeps the last of two equal keys; this sees both.
class DuplicateFinder {
 public:
  explicit DuplicateFinder(std::string_view where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kDeepest) throw DataError("{}: nested deeper than {} levels", where_, kDeepest);
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw DataError("{}: the key {} comes twice", where_, shown(key));
      }
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_strict_json(std::string_view text, std::string_view where) {
  DuplicateFinder finder(where);
  try {
    return Json::parse(text.begin(), text.end(),
                       [&finder](int depth, Json::parse_event_t event, const Json& parsed) {
                         return finder(depth, event, parsed);
                       });
  } catch (const Json::parse_error& error) {
    throw DataError("{}: not JSON at byte {}", where, error.byte);
  } catch (const Json::exception&) {
    throw DataError("{}: a number is out of range", where);
  }
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

std::string JsonObject::text(const std::string& key, std::size_t longest) {
  const Json& value = field(key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > longest) {
    throw DataError("{}: '{}' must be a string of at most {} bytes", where_, key, longest);
  }
  return value.get<std::string>();
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
