// JsonTextReader: simdjson reads well-formed lines; json_texts() reads all others and says what is
// wrong with them.

#include <simdjson.h>

#include <algorithm>

#include "phalanx/corpus/json_lines.h"

namespace phalanx {
namespace {

using simdjson::dom::element;

// False for anything but a string or a list of strings.
bool read_value(const element& value, std::vector<std::string>& texts) {
  texts.clear();
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    texts.emplace_back(text);
    return true;
  }
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return false;
  for (const element item : list) {
    if (item.get(text) != simdjson::SUCCESS) return false;
    texts.emplace_back(text);
  }
  return true;
}

// False where a key is missing, or has another value. The last of several values of a key counts.
bool read_object(const simdjson::dom::object& object, const std::vector<std::string>& keys,
                 std::vector<std::vector<std::string>>& texts) {
  std::vector<bool> is_found(keys.size());
  for (const auto& [name, value] : object) {
    const auto key = std::find(keys.begin(), keys.end(), name);
    if (key == keys.end()) continue;
    const auto place = static_cast<std::size_t>(key - keys.begin());
    if (!read_value(value, texts[place])) return false;
    is_found[place] = true;
  }
  return std::find(is_found.begin(), is_found.end(), false) == is_found.end();
}

}  // namespace

struct JsonTextReader::Parser {
  simdjson::dom::parser parser;
};

JsonTextReader::JsonTextReader(const std::vector<std::string>& keys)
    : keys_(keys), parser_(std::make_unique<Parser>()) {}
JsonTextReader::~JsonTextReader() = default;

std::vector<std::vector<std::string>> JsonTextReader::texts(std::string_view line,
                                                            std::string_view place) {
  std::vector<std::vector<std::string>> texts(keys_.size());
  simdjson::dom::object object;
  // The parser reads beyond the end of its input, so it copies the line first.
  const bool is_object =
      parser_->parser.parse(line.data(), line.size()).get(object) == simdjson::SUCCESS;
  if (is_object && read_object(object, keys_, texts)) return texts;
  return json_texts(line, keys_, place);
}

}  // namespace phalanx
