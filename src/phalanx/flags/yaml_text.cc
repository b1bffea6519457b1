#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "phalanx/base/error.h"
#include "phalanx/base/utf8.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";
// Without a meaning in YAML within a word; '-', '+', '.' and digits begin numbers.
constexpr std::string_view kMarks = "_/-+.,@%=";
// Words that some reader of YAML takes for null, true or false, in lower case.
constexpr std::array<std::string_view, 9> kMeanings = {"null", "true", "false", "yes", "no",
                                                       "on",   "off",  "y",     "n"};

bool has_only(std::string_view text, std::initializer_list<std::string_view> sets) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::any_of(sets.begin(), sets.end(),
                       [&](std::string_view set) { return set.find(c) != std::string_view::npos; });
  });
}

bool begins_with_any(std::string_view text, std::string_view set) {
  return !text.empty() && set.find(text.front()) != std::string_view::npos;
}

bool has_a_meaning(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kMeanings.begin(), kMeanings.end(), lower) != kMeanings.end();
}

// Whether every reader takes the word for text.
bool is_plain_text(std::string_view text) {
  return (begins_with_any(text, kLetters) || begins_with_any(text, "_/")) &&
         has_only(text, {kLetters, kDigits, kMarks}) && !has_a_meaning(text);
}

bool is_plain_value(std::string_view text) {
  const auto sign = begins_with_any(text, "+-") ? 1U : 0U;
  const bool is_number = begins_with_any(text.substr(sign), "0123456789.") &&
                         has_only(text, {kLetters, kDigits, kMarks});
  return is_number || text == "true" || text == "false" || is_plain_text(text);
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    if (!character) {
      throw UsageError("'{}' is no UTF-8, and a YAML file can hold nothing else: rename it", text);
    }
    const auto code = static_cast<unsigned>(character->code);
    // Ends of lines, and the mark of byte orders, are lost or folded where they are not escaped.
    const bool is_lost = code == 0x2028 || code == 0x2029 || code == 0x85 || code == 0xfeff;
    if (code == '"' || code == '\\') {
      out += '\\';
      out += text[at];
    } else if (code == '\n') {
      out += "\\n";
    } else if (code < 0x20 || !is_printable(character->code) || is_lost) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
      out += text.substr(at, character->bytes);
    }
    at += character->bytes;
  }
  return out + '"';
}

// A reference to the environment would be replaced: it is written as text.
std::string without_references(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("${")) out += '$';
    out += text[at];
  }
  return out;
}

std::string scalar(const std::string& word, bool is_text) {
  const bool is_plain = is_text ? is_plain_text(word) : is_plain_value(word);
  return is_plain ? word : in_quotes(without_references(word));
}

std::string key_text(const std::string& key) { return is_plain_text(key) ? key : in_quotes(key); }

}  // namespace

std::string yaml_text(const std::vector<YamlSection>& sections) {
  std::string out;
  for (const YamlSection& section : sections) {
    if (section.values.empty()) continue;
    out += key_text(section.heading) + ":\n";
    for (const YamlValue& value : section.values) {
      out += "  " + key_text(value.key) + ":";
      if (!value.is_list) {
        PHALANX_CHECK(value.words.size() == 1, "{} has {} words and is no list", value.key,
                      value.words.size());
        out += " " + scalar(value.words.front(), value.is_text) + "\n";
        continue;
      }
      out += value.words.empty() ? " []\n" : "\n";
      for (const std::string& word : value.words) {
        out += "    - " + scalar(word, value.is_text) + "\n";
      }
    }
  }
  return out;
}

}  // namespace phalanx
