#include "phalanx/base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace phalanx {
namespace {

// The only character that a JSON string may have as it is and that no text has.
constexpr char kStandIn = '\x7f';

struct PythonNumber {
  std::string_view text;
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<PythonNumber, 3> kPythonNumbers = {
    {{"NaN", std::numeric_limits<double>::quiet_NaN()},
     {"Infinity", kInfinity},
     {"-Infinity", -kInfinity}}};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The end of the string whose first quote stands at `begin`.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

// The word or signed word that the byte at `at` is of.
std::string_view word_at(std::string_view text, std::size_t at) {
  const auto is_inside = [](char c) { return is_of_word(c) || c == '-' || c == '+' || c == '.'; };
  std::size_t begin = at;
  while (begin > 0 && is_inside(text[begin - 1])) --begin;
  std::size_t end = at;
  while (end < text.size() && is_inside(text[end])) ++end;
  return text.substr(begin, end - begin);
}

// JSON's word for a word of another language; empty: none.
std::string_view instead_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kWords = {
      {{"None", "null"},
       {"True", "true"},
       {"False", "false"},
       {"undefined", "null"},
       {"nan", "null"},
       {"NaN", "null"},
       {"Infinity", "null"},
       {"-Infinity", "null"}}};
  const auto found =
      std::ranges::find(kWords, word, &std::pair<std::string_view, std::string_view>::first);
  return found == kWords.end() ? std::string_view() : found->second;
}

// The text in front of a place, without blanks at its end.
std::string_view before(std::string_view text, std::size_t at) {
  std::string_view front = text.substr(0, at);
  while (!front.empty() && is_blank(front.back())) front.remove_suffix(1);
  return front;
}

std::string what_stands(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 40;
  if (at >= text.size()) return "the text ends before its value does";
  const char c = text[at];
  const std::string_view front = before(text, at);
  const bool behind_comma = front.ends_with(',');
  if ((c == '}' || c == ']') && behind_comma) return fmt::format("a comma before {}", c);
  if (c == '\'') return "a single quote: strings have double ones";
  if (c == '/' || c == '#') return "a comment: JSON has none";
  if (static_cast<unsigned char>(c) < 0x20 && !is_blank(c)) return "a control character";
  if (c == '\n' || c == '\r' || c == '\t') return "a line break or a tab inside a string";
  if (static_cast<unsigned char>(c) >= 0x80) return "bytes that are no UTF-8, or no JSON";
  if (const std::string_view word = word_at(text, at); !word.empty()) {
    const std::string_view better = instead_of(word);
    const std::string shown(word.substr(0, kLongest));
    return better.empty() ? fmt::format("'{}' is no value of JSON", shown)
                          : fmt::format("{} is no value of JSON: {} is", shown, better);
  }
  if (c == '"' || c == '{' || c == '[') {
    return fmt::format("{} where a comma, a colon or an end must stand", c);
  }
  return fmt::format("'{}' may not stand there", c);
}

}  // namespace

std::string json_fault(std::string_view text, std::size_t byte) {
  const std::size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const std::string_view front = text.substr(0, at);
  const std::size_t last_break = front.rfind('\n');
  const std::string_view line =
      last_break == std::string_view::npos ? front : front.substr(last_break + 1);
  // Bytes that continue a character are not counted.
  const auto column = std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  return fmt::format("line {}, column {}: {}", std::ranges::count(front, '\n') + 1, column + 1,
                     what_stands(text, at));
}

std::optional<std::string> without_python_numbers(std::string_view text) {
  std::optional<std::string> without;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = end_of_string(text, at);
      continue;
    }
    if (!is_of_word(text[at]) && text[at] != '-') {
      ++at;
      continue;
    }
    const std::string_view word = word_at(text, at);
    const std::size_t end = at + word.size();
    const bool is_number =
        std::ranges::find(kPythonNumbers, word, &PythonNumber::text) != kPythonNumbers.end();
    const std::size_t next = text.find_first_not_of(" \t\r\n", end);
    const bool is_key = next != std::string_view::npos && text[next] == ':';
    if (is_number && !is_key) {
      if (!without) without = std::string(text);
      (*without)[at] = (*without)[end - 1] = '"';
      std::fill(without->begin() + static_cast<std::ptrdiff_t>(at) + 1,
                without->begin() + static_cast<std::ptrdiff_t>(end) - 1, kStandIn);
    }
    at = end;
  }
  return without;
}

std::optional<double> python_number(std::string_view string) {
  if (string.empty() || string.find_first_not_of(kStandIn) != std::string_view::npos) {
    return std::nullopt;
  }
  const auto found = std::ranges::find_if(kPythonNumbers, [&](const PythonNumber& number) {
    return number.text.size() == string.size() + 2;
  });
  if (found == kPythonNumbers.end()) return std::nullopt;
  return found->value;
}

std::string_view python_name(double number) {
  const std::size_t index = std::isnan(number) ? 0 : number > 0 ? 1 : 2;
  return kPythonNumbers[index].text;
}

}  // namespace phalanx
