#pragma once
// Values of a JSON file that know where they stand, so that every error names the file and the path
// ("tokenizer.json: $.model.type: ..."). DataError for what the file may not say, ConfigError for
// what it may say and this program does not do.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {

class JsonNode {
 public:
  // The file's one value; NaN and Infinity count as numbers, as in Python. DataError where the text
  // is not JSON, a key comes twice in one object or
  // values are nested more than 64 deep.
  static JsonNode read(const std::filesystem::path& file);
  static JsonNode parse(std::string_view text, std::string name);

  bool is_null() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  // For an object: whether it has the key. Null counts as absent.
  bool has(std::string_view key) const { return find(key).has_value(); }
  JsonNode operator[](std::string_view key) const;  // must be there
  std::optional<JsonNode> find(std::string_view key) const;
  std::vector<std::pair<std::string, JsonNode>> members() const;
  // Other members, except null ones, are refused: what is not read cannot be obeyed.
  void allow(std::initializer_list<std::string_view> keys) const;

  std::vector<JsonNode> elements() const;  // of an array

  // A copy of the whole document in which a key of an object of it is true, false or null. Only for
  // the file's value itself.
  JsonNode with(std::string_view member, std::string_view key, std::optional<bool> value) const;

  std::string text() const;
  char32_t character() const;  // a text of one
  bool flag() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number() const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;

  // "FILE: $.path", for messages.
  std::string place() const;
  std::string path() const { return path_; }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError("{}: {}", place(), fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError("{}: {}", place(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  struct Document;
  JsonNode(std::shared_ptr<const Document> document, const nlohmann::json* value, std::string path)
      : document_(std::move(document)), value_(value), path_(std::move(path)) {}
  [[noreturn]] void expected(std::string_view what) const;
  std::string path_of(std::string_view key) const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* value_;
  std::string path_;
};

// A text of a file, quoted, as ASCII and short enough for a message.
std::string shown_text(std::string_view text);

}  // namespace phalanx
