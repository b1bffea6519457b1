#include "phalanx/flags/flag_spec.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

std::optional<double> finite_of(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> switch_of(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

bool is_one_of(char c, std::string_view characters) {
  return characters.find(c) != std::string_view::npos;
}

// The pieces between any of the separators; empty ones are left out.
std::vector<std::string_view> pieces_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  std::size_t begin = text.find_first_not_of(separators);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
  return pieces;
}

// "969, 30, 1" or "969/30/1": a number between any two separators, blanks around it.
std::optional<std::vector<double>> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    const std::size_t comma = text.find_first_of(",/");
    const auto inside = pieces_of(text.substr(0, comma), " \t");
    const auto number = inside.size() == 1 ? finite_of(inside[0]) : std::nullopt;
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

// Why a text is no finite number.
std::string number_fault(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return "is not a number";
  if (fault == std::errc::result_out_of_range) return "is too large or too small for a number";
  return fault == std::errc{} ? "must be finite" : "is not a number";
}

std::string real_text(double value) { return fmt::format("{}", value); }

// A word of a list as text: in quotes where it would not come back as it is.
std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\n\"\\") == std::string::npos) return word;
  std::string text = "\"";
  for (const char c : word) {
    if (is_one_of(c, "\"\\")) text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string list_text(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::string bound_text(double bound) {
  const auto whole = static_cast<std::int64_t>(bound);
  return static_cast<double>(whole) == bound ? std::to_string(whole) : real_text(bound);
}

std::optional<std::string> range_fault(const FlagRange& range, double value) {
  const bool is_low = range.excludes_least ? value <= range.least : value < range.least;
  const bool is_high = range.excludes_most ? value >= range.most : value > range.most;
  if (!is_low && !is_high) return std::nullopt;
  const bool has_least = std::isfinite(range.least);
  const bool has_most = std::isfinite(range.most);
  std::string text = "must be";
  if (has_least && has_most && !range.excludes_least && !range.excludes_most) {
    return fmt::format("must be from {} to {}", bound_text(range.least), bound_text(range.most));
  }
  if (has_least) {
    text +=
        fmt::format(" {} {}", range.excludes_least ? "above" : "at least", bound_text(range.least));
  }
  if (has_most) {
    text += fmt::format("{} {} {}", has_least ? " and" : "",
                        range.excludes_most ? "below" : "at most", bound_text(range.most));
  }
  return text;
}

}  // namespace

std::string canonical_name(std::string_view spelling) {
  std::string name = "--";
  name += spelling.substr(std::min(spelling.find_first_not_of('-'), spelling.size()));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool answers_to(const FlagSpec& spec, std::string_view name) {
  const std::string canonical = canonical_name(name);
  if (canonical_name(spec.name) == canonical) return true;
  for (const auto list : {spec.aliases, spec.old_names}) {
    for (const auto other : words_of(list)) {
      if (canonical_name(other) == canonical) return true;
    }
  }
  return false;
}

std::vector<std::string_view> words_of(std::string_view list) { return pieces_of(list, " "); }

FlagType type_of(const FlagTarget& target, FlagType declared) {
  struct Visitor {
    FlagType declared;
    FlagType operator()(std::monostate) const { return declared; }
    FlagType operator()(const bool*) const { return FlagType::kSwitch; }
    FlagType operator()(const std::int64_t*) const { return FlagType::kInteger; }
    FlagType operator()(const double*) const { return FlagType::kReal; }
    FlagType operator()(const std::optional<double>*) const { return FlagType::kReal; }
    FlagType operator()(const std::string*) const {
      return declared == FlagType::kNumbers ? declared : FlagType::kText;
    }
    FlagType operator()(const std::vector<std::string>*) const { return FlagType::kList; }
    FlagType operator()(const std::vector<std::int64_t>*) const { return FlagType::kList; }
  };
  return std::visit(Visitor{declared}, target);
}

std::string text_of(const FlagTarget& target) {
  struct Visitor {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const { return real_text(*value); }
    std::string operator()(const std::optional<double>* value) const {
      return *value ? real_text(**value) : std::string();
    }
    std::string operator()(const std::string* value) const { return *value; }
    std::string operator()(const std::vector<std::string>* value) const {
      return list_text(*value);
    }
    std::string operator()(const std::vector<std::int64_t>* value) const {
      return fmt::format("{}", fmt::join(*value, " "));
    }
  };
  return std::visit(Visitor{}, target);
}

std::vector<std::string> words_of_text(FlagType type, std::string_view text) {
  if (type != FlagType::kList) return {std::string(text)};
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\n", at)) != std::string_view::npos) {
    std::string word;
    if (text[at] != '"') {
      const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
      word = text.substr(at, end - at);
      at = end;
    } else {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        word += text[at];
      }
      ++at;
    }
    words.push_back(std::move(word));
    if (at >= text.size()) break;
  }
  return words;
}

std::string canonical_value(FlagType type, std::string_view text) {
  switch (type) {
    case FlagType::kSwitch:
      if (const auto value = switch_of(text)) return *value ? "true" : "false";
      break;
    case FlagType::kInteger:
      if (const auto value = parse_number<std::int64_t>(text)) return std::to_string(*value);
      break;
    case FlagType::kReal:
      if (const auto value = finite_of(text)) return real_text(*value);
      break;
    case FlagType::kNumbers:
      if (const auto numbers = numbers_of(text)) {
        std::string list;
        for (const double number : *numbers) list += (list.empty() ? "" : ",") + real_text(number);
        return list;
      }
      break;
    case FlagType::kText:
      break;
    case FlagType::kList:
      return list_text(words_of_text(type, text));
  }
  return std::string(text);
}

std::optional<std::string> type_fault(FlagType type, std::string_view value) {
  switch (type) {
    case FlagType::kSwitch:
      if (switch_of(value)) return std::nullopt;
      return "is a switch: true or false";
    case FlagType::kInteger:
      if (parse_number<std::int64_t>(value)) return std::nullopt;
      if (const auto real = finite_of(value); real && std::abs(*real) >= 9.2e18) {
        return "does not fit into 64 bits";
      }
      return "is not a whole number";
    case FlagType::kReal:
      if (finite_of(value)) return std::nullopt;
      return number_fault(value);
    case FlagType::kNumbers:
      if (numbers_of(value)) return std::nullopt;
      return "is no list of numbers: give them between commas";
    case FlagType::kText:
    case FlagType::kList:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> fault_of(const FlagSpec& spec, FlagType type, std::string_view value) {
  if (value.empty() && !spec.may_be_empty) return "is empty: is a variable of the script not set?";
  if (auto fault = type_fault(type, value)) return fault;
  if (!spec.choices.empty()) {
    const auto choices = words_of(spec.choices);
    if (std::ranges::find(choices, value) == choices.end()) {
      std::string list;
      for (const auto choice : choices) list += (list.empty() ? "" : ", ") + std::string(choice);
      return "choose one of " + list;
    }
  }
  if (type == FlagType::kInteger || type == FlagType::kReal) {
    return range_fault(spec.range, *finite_of(value));
  }
  return std::nullopt;
}

std::optional<std::string> assign(const FlagTarget& target, FlagType type,
                                  const std::vector<std::string>& words) {
  if (type != FlagType::kList) {
    if (words.size() != 1) return "takes one value";
    if (auto fault = type_fault(type, words[0])) return fault;
  }
  if (std::holds_alternative<std::vector<std::int64_t>*>(target)) {
    for (const std::string& word : words) {
      if (auto fault = type_fault(FlagType::kInteger, word)) return word + " " + *fault;
    }
  }
  struct Visitor {
    const std::vector<std::string>& words;
    void operator()(std::monostate) const {}
    void operator()(bool* value) const { *value = *switch_of(words[0]); }
    void operator()(std::int64_t* value) const { *value = *parse_number<std::int64_t>(words[0]); }
    void operator()(double* value) const { *value = *finite_of(words[0]); }
    void operator()(std::optional<double>* value) const { *value = *finite_of(words[0]); }
    void operator()(std::string* value) const { *value = words[0]; }
    void operator()(std::vector<std::string>* value) const { *value = words; }
    void operator()(std::vector<std::int64_t>* value) const {
      value->clear();
      for (const std::string& word : words) value->push_back(*parse_number<std::int64_t>(word));
    }
  };
  std::visit(Visitor{words}, target);
  return std::nullopt;
}

std::string_view value_name(const FlagSpec& spec, FlagType type) {
  if (!spec.value_name.empty()) return spec.value_name;
  switch (type) {
    case FlagType::kSwitch:
      return "";
    case FlagType::kInteger:
      return "N";
    case FlagType::kReal:
      return "X";
    case FlagType::kNumbers:
      return "X,X,...";
    case FlagType::kText:
    case FlagType::kList:
      return "TEXT";
  }
  return "";
}

}  // namespace phalanx
