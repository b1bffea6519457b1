#pragma once
// JSON from outside, read without trust: duplicate keys, deep nesting and wrong types are
// DataErrors that name the file and the place.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/shape.h"

namespace phalanx {

// `where` opens every message: the file's path.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where);
// The same with NaN, Infinity and -Infinity as numbers, as Python's json module has them.
nlohmann::json parse_python_json(std::string_view text, std::string_view where);

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 (paths may have them) become
// U+FFFD.
std::string json_string(std::string_view text);

// The fields of one object. Every getter throws a DataError if the field is missing, of another
// type or out of range; finish() throws one if a field was not asked for. The JSON value must
// outlive this object.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string where);

  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::uint64_t unsigned_integer(const std::string& key);
  double number(const std::string& key);  // finite: JSON has no other
  bool boolean(const std::string& key);
  std::string text(const std::string& key, std::size_t longest);
  std::vector<std::string> texts(const std::string& key, std::size_t longest);  // each
  std::uint64_t digest(const std::string& key);
  std::optional<std::uint64_t> digest_or_null(const std::string& key);
  const nlohmann::json& array(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t low, std::int64_t high);
  Shape shape(const std::string& key);  // at most kMaxRank extents, none negative
  JsonObject object(const std::string& key);
  void finish() const;
  // Whether an optional field is there.
  bool has(const std::string& key) const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& field(const std::string& key);
  std::int64_t checked_integer(const nlohmann::json& value, const std::string& key,
                               std::int64_t low, std::int64_t high) const;
  std::string checked_text(const nlohmann::json& value, const std::string& key,
                           std::size_t longest) const;

  const nlohmann::json& value_;
  std::string where_;
  std::set<std::string> known_;
};

}  // namespace phalanx
