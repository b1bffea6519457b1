#include <fmt/format.h>

#include <algorithm>

#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

// The columns that a name and its dots take.
constexpr std::size_t kNameWidth = 48;

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Python's repr() of a number: the shortest text that reads back the same, never without a point,
// an exponent or letters. fmt's has the same digits and bounds of the exponent.
std::string python_real(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Python's repr() of a text.
std::string python_quoted(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + quote;
}

struct PythonText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(const bool* value) const { return *value ? "True" : "False"; }
  std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return python_real(*value); }
  std::string operator()(const std::optional<double>* value) const {
    return *value ? python_real(**value) : "None";
  }
  std::string operator()(const std::string* value) const {
    return value->empty() ? "None" : *value;
  }
  std::string operator()(const std::vector<std::string>* values) const {
    if (values->empty()) return "None";
    std::vector<std::string> words;
    for (const auto& value : *values) words.push_back(python_quoted(value));
    return fmt::format("[{}]", fmt::join(words, ", "));
  }
  std::string operator()(const std::vector<std::int64_t>* values) const {
    return values->empty() ? "None" : fmt::format("[{}]", fmt::join(*values, ", "));
  }
};

}  // namespace

std::string arguments_text(const std::vector<FlagRow>& rows) {
  std::vector<std::pair<std::string, std::string>> lines;  // lower case (for sorting), and the line
  for (const FlagRow& row : rows) {
    if (std::holds_alternative<std::monostate>(row.target)) continue;
    std::string name(row.spec.name.substr(row.spec.name.find_first_not_of('-')));
    std::ranges::replace(name, '-', '_');
    const std::size_t dots = kNameWidth - std::min(kNameWidth, name.size());
    std::string line = fmt::format("  {} {} {}\n", name, std::string(dots, '.'),
                                   std::visit(PythonText{}, row.target));
    lines.emplace_back(lower(line), std::move(line));
  }
  std::ranges::stable_sort(lines, {}, &std::pair<std::string, std::string>::first);
  std::string text = "------------------------ arguments ------------------------\n";
  for (const auto& [key, line] : lines) text += line;
  return text + "-------------------- end of arguments ---------------------\n";
}

}  // namespace phalanx
