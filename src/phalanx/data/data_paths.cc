#include "phalanx/data/data_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/base/utf8.h"
#include "phalanx/data/blend.h"

namespace phalanx {
namespace {

// A list of datasets is a page of text; a larger file was named by mistake.
constexpr std::int64_t kLongestList = std::int64_t{64} << 20;

// Reads numbers as Python's float() does, in the forms that people use.
std::optional<double> number_of(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  return parse_number<double>(word);
}

std::vector<std::string> words_in(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  std::vector<std::string> words;
  while (true) {
    const auto begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const auto end = std::min(text.find_first_of(kBlanks), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string read_list(const std::string& path, std::string_view flag) {
  try {
    const MappedFile file(path);
    if (static_cast<std::int64_t>(file.bytes().size()) > kLongestList) {
      throw ConfigError("{} {}: {} bytes are no list of datasets", flag, path, file.bytes().size());
    }
  } catch (const InputMissingError&) {
    throw InputMissingError("{} {}: no such file", flag, path);
  }
  return read_file(path);
}

void check_prefixes(const DataBlend& blend, std::string_view source) {
  if (static_cast<std::int64_t>(blend.prefixes.size()) > kMostBlended) {
    throw ConfigError(
        "{}: {} datasets are more than can be blended ({}): join some of them "
        "(phalanx dataset merge)",
        source, blend.prefixes.size(), kMostBlended);
  }
  for (const std::string& prefix : blend.prefixes) {
    if (prefix.empty()) throw ConfigError("{}: a prefix is empty", source);
    if (first_foreign_byte(prefix)) {
      throw ConfigError("{}: {} is not UTF-8: give the dataset another name (mv)", source,
                        with_foreign_bytes_named(prefix));
    }
  }
}

// The weights in the words at 0, 2, 4, ...; nothing where none of them is a number.
std::optional<std::vector<double>> weights_in(std::span<const std::string> words,
                                              std::string_view source) {
  std::vector<double> weights;
  const std::string* other = nullptr;
  const std::string* number = nullptr;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto weight = number_of(words[i]);
    (weight ? number : other) = &words[i];
    if (weight) weights.push_back(*weight);
  }
  if (number == nullptr) return std::nullopt;
  if (other != nullptr) {
    throw ConfigError(
        "{}: {} is a weight and {} is none: give WEIGHT PREFIX for every dataset, or prefixes "
        "alone",
        source, *number, *other);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] > 0) continue;
    throw ConfigError("{}: the weight {} of {} must be above 0{}", source, words[2 * i],
                      words[2 * i + 1], weights[i] == 0 ? ": leave the dataset out" : "");
  }
  return weights;
}

std::vector<std::string> words_of(const nlohmann::json& json, const std::string& where) {
  if (json.is_null()) return {};
  if (json.is_string()) return words_in(json.get_ref<const std::string&>());
  std::vector<std::string> words;
  if (json.is_array()) {
    for (const auto& word : json) {
      if (word.is_string()) {
        words.push_back(word.get<std::string>());
      } else if (word.is_number()) {
        words.push_back(word.dump());
      } else {
        throw ConfigError("{}: the list holds {}, not only weights and prefixes", where,
                          word.type_name());
      }
    }
    return words;
  }
  throw ConfigError("{}: a list of weights and prefixes is expected, got {}", where,
                    json.type_name());
}

}  // namespace

DataBlend parse_data_blend(std::span<const std::string> words, std::string_view source) {
  if (words.empty()) throw ConfigError("{}: give the prefix of a dataset", source);
  DataBlend blend;
  const auto weights = words.size() % 2 == 0 ? weights_in(words, source) : std::nullopt;
  if (weights) {
    blend.weights = *weights;
    for (std::size_t i = 1; i < words.size(); i += 2) blend.prefixes.push_back(words[i]);
  } else {
    blend.prefixes.assign(words.begin(), words.end());
  }
  check_prefixes(blend, source);
  return blend;
}

DataBlend read_data_blend(const std::string& path, std::string_view flag) {
  return parse_data_blend(words_in(read_list(path, flag)), fmt::format("{} {}", flag, path));
}

SplitBlends read_split_blends(const std::string& path, std::string_view flag) {
  const std::string source = fmt::format("{} {}", flag, path);
  const std::string text = read_list(path, flag);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw ConfigError("{}: a JSON object with \"train\", \"valid\" and \"test\" is expected",
                      source);
  }
  SplitBlends blends;
  for (const auto& [key, value] : json.items()) {
    const auto kind =
        std::ranges::find_if(kSplitKinds, [&key = key](SplitKind k) { return name_of(k) == key; });
    if (kind == kSplitKinds.end()) {
      throw ConfigError("{}: \"{}\" is none of \"train\", \"valid\" and \"test\"", source, key);
    }
    const std::string where = fmt::format("{}: \"{}\"", source, key);
    const auto words = words_of(value, where);
    if (words.empty()) continue;
    blends[static_cast<std::size_t>(*kind)] = parse_data_blend(words, where);
  }
  return blends;
}

}  // namespace phalanx
