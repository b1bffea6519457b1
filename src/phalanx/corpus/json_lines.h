#pragma once
// Reads lines of JSON: the strings of the wanted keys of an object.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// The strings of each key of one JSON object: one for a string, any number for a list of strings.
// DataError for anything else; its message begins with `place` (file:line; may be empty).
std::vector<std::vector<std::string>> json_texts(std::string_view line,
                                                 const std::vector<std::string>& keys,
                                                 std::string_view place);

// Does the same for many lines, and is twenty times as fast on a well-formed line. It keeps its
// memory from line to line, so every thread needs its own reader.
class JsonTextReader {
 public:
  explicit JsonTextReader(const std::vector<std::string>& keys);
  JsonTextReader(const JsonTextReader&) = delete;
  JsonTextReader& operator=(const JsonTextReader&) = delete;
  ~JsonTextReader();

  std::vector<std::vector<std::string>> texts(std::string_view line, std::string_view place);

 private:
  struct Parser;
  const std::vector<std::string>& keys_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace phalanx
