#include "phalanx/data/corpus.h"

#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kLineBreaks = "\r\n";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

std::string_view without_outer_breaks(std::string_view text) {
  const auto first = text.find_first_not_of(kLineBreaks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kLineBreaks) - first + 1);
}

void visit_piece(std::string_view piece, const DocumentVisitor& visit) {
  piece = without_outer_breaks(piece);
  if (!is_blank(piece)) visit(piece);
}

}  // namespace

void for_each_paragraph(std::string_view text, const DocumentVisitor& visit) {
  std::size_t begin = 0;  // of the paragraph
  for (std::size_t line = 0; line < text.size();) {
    const auto end = text.find('\n', line);
    const auto next = end == std::string_view::npos ? text.size() : end + 1;
    if (is_blank(text.substr(line, next - line))) {
      visit_piece(text.substr(begin, line - begin), visit);
      begin = next;
    }
    line = next;
  }
  visit_piece(text.substr(begin), visit);
}

void for_each_separated(std::string_view text, std::string_view separator,
                        const DocumentVisitor& visit) {
  PHALANX_CHECK(!separator.empty(), "an empty separator");
  while (true) {
    const auto end = text.find(separator);
    visit_piece(text.substr(0, end), visit);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + separator.size());
  }
}

void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& visit) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (!is_blank(line)) visit(line, number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

std::vector<std::vector<std::string>> json_texts(std::string_view line,
                                                 const std::vector<std::string>& keys,
                                                 const std::string& place) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line.begin(), line.end());
  } catch (const nlohmann::json::parse_error& error) {
    // The library's text repeats its own error number, and a line number that counts within the
    // line.
    throw DataError("{}: not JSON (at byte {} of the line)", place, error.byte);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: not JSON that can be read: {}", place, error.what());
  }
  if (!object.is_object())
    throw DataError("{}: a JSON object is expected, got {}", place, object.type_name());
  std::vector<std::vector<std::string>> texts(keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto found = object.find(keys[k]);
    if (found == object.end()) {
      throw DataError("{}: the object has no key \"{}\" (--json-keys)", place, keys[k]);
    }
    auto& value = *found;
    if (value.is_string()) {
      texts[k].push_back(std::move(value.get_ref<std::string&>()));
      continue;
    }
    if (!value.is_array()) {
      throw DataError("{}: \"{}\" is {}, not a string or a list of strings", place, keys[k],
                      value.type_name());
    }
    for (auto& element : value) {
      if (!element.is_string()) {
        throw DataError("{}: the list \"{}\" holds {}, not only strings", place, keys[k],
                        element.type_name());
      }
      texts[k].push_back(std::move(element.get_ref<std::string&>()));
    }
  }
  return texts;
}

}  // namespace phalanx
