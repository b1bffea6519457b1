#pragma once
// A config.json, read without trust, but as Python reads it: with NaN and Infinity. A key with the
// value null counts as absent, except in is_null(). DataError names the file, the key and what it
// must be.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {

// No model has larger sizes; products of three such numbers fit into 64 bits.
inline constexpr std::int64_t kMostWidth = std::int64_t{1} << 22;
inline constexpr std::int64_t kMostLayers = 65534;
inline constexpr std::int64_t kMostHeads = 4096;
inline constexpr std::int64_t kMostInt32 = 2147483647;

class ConfigFile {
 public:
  // InputMissingError if there is no such file, DataError if it is not a JSON object.
  explicit ConfigFile(const std::filesystem::path& path);
  // From a text, for tests; every message begins with `where`.
  ConfigFile(std::string_view text, std::string where);

  const std::string& where() const { return where_; }

  // Whether the key is there, null or not.
  bool has(const std::string& key) const;
  // Whether it is there and null.
  bool is_null(const std::string& key) const;

  // The overloads without a default need the key.
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> absent = std::nullopt) const;
  // Finite: Python's NaN and Infinity are no numbers that a model can have.
  double number(const std::string& key, std::optional<double> absent = std::nullopt) const;
  bool boolean(const std::string& key, bool absent) const;
  std::string text(const std::string& key, std::optional<std::string> absent = std::nullopt) const;
  std::vector<std::string> texts(const std::string& key) const;  // empty if it is absent
  // One integer or a list of them; empty if it is absent.
  std::vector<std::int64_t> ids(const std::string& key) const;
  // A list of integers; empty if it is absent.
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t low,
                                     std::int64_t high) const;
  // The object of a key; null if it is absent.
  std::optional<ConfigFile> object(const std::string& key) const;

  // A width, a count of layers, of heads: from 1.
  std::int64_t size(const std::string& key, std::int64_t most = kMostWidth,
                    std::optional<std::int64_t> absent = std::nullopt) const {
    return integer(key, 1, most, absent);
  }
  // A share below one.
  double dropout(const std::string& key, double absent) const;

  // Whether the key says something: it is there and not null, false, 0, "", [] or {}.
  bool says(const std::string& key) const;
  // The keys of the object, in order.
  std::vector<std::string> keys() const;

  // ConfigError if a key that changes the model is there and is neither null nor false.
  void refuse(const std::string& key, std::string_view what) const;
  // ConfigError if the key is there and has another value.
  void expect(const std::string& key, bool value, bool absent) const;

  // The object without these keys as a JSON text; empty where it has no others. What has NaN or
  // Infinity in it is left out, with a warning: JSON has no such numbers.
  std::string text_without(std::span<const std::string_view> keys) const;

  // Another name of a key: it is read where the key is absent. ConfigError if both are there and
  // say different things.
  void also_called(const std::string& key, const std::string& alias) const;

  // Marks a key that says nothing about the model, so that it is not reported as unknown.
  void skip(std::string_view key) const;
  // Marks a key that could say something about the model and does not in this file, and why not.
  void without_effect(const std::string& key, std::string_view why) const;
  // Keys of this object that were never asked for.
  std::vector<std::string> ignored() const;
  // Keys that say something which nothing here depends on: those without effect, of objects inside
  // this one too, and those that were never asked for. `all`: those that say nothing, too.
  std::vector<std::string> unused(bool all = false) const;
  // Warns of the keys of this object that say something and were never asked for.
  void warn_of_ignored() const;

  // A note for the user who imports.
  void warn(std::string_view text) const;

 private:
  // The object of a key of another one.
  ConfigFile(const ConfigFile& file, const nlohmann::json& value, const std::string& key);
  // Null if the key is absent or null.
  const nlohmann::json* find(const std::string& key) const;
  const nlohmann::json& need(const std::string& key) const;

  std::shared_ptr<const nlohmann::json> document_;
  const nlohmann::json* value_;
  std::string where_;
  std::string key_ = {};  // of the object in the file; empty for the file's own
  std::shared_ptr<std::set<std::string>> known_;
  std::shared_ptr<std::set<std::string>> skipped_;
  std::shared_ptr<std::map<std::string, std::string>> aliases_;  // by key
  std::shared_ptr<std::vector<std::string>> without_effect_;     // of all objects of the file
};

}  // namespace phalanx::hugging_face
