#pragma once
// Flags in YAML files: keys are the names of flags with underscores, flat or below any headings.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// A key with its value, or a heading (which has no words).
struct YamlEntry {
  std::string key;
  std::vector<std::string> words = {};  // a scalar is one word
  bool is_list = false;
  std::string place;  // FILE:LINE:COLUMN of the key, counted from 1
};

struct YamlContents {
  std::vector<YamlEntry> entries;
  std::vector<YamlEntry> headings;
};

// The value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> process_environment(const std::string& name);

// Entries and headings in the order of the file; keys without a value (empty, ~, null) are left
// out. With an environment, ${NAME} in a value is replaced; without one it is an error that names
// --yaml-env. $${ always means the text ${. DataError (65) with FILE:LINE:COLUMN (in bytes, from 1)
// for text that is not YAML or not UTF-8, keys that occur twice (below any heading; dashes count as
// underscores), anchors, aliases, tags, several documents, lists of anything but scalars, headings
// nested deeper than kMostYamlDepth, and files larger than kMostYamlBytes.
YamlContents parse_yaml(std::string_view text, std::string_view file,
                        const Environment& environment = nullptr);
// The same for a regular file. InputMissingError if it is not there.
YamlContents read_yaml(const std::string& path, const Environment& environment = nullptr);

inline constexpr std::size_t kMostYamlBytes = std::size_t{1} << 20;
inline constexpr int kMostYamlDepth = 8;

// A heading and its keys, for printing. Words are as on the command line; parse_yaml() returns the
// same words.
struct YamlValue {
  std::string key;
  std::vector<std::string> words = {};
  bool is_list = false;
  bool is_text = false;  // quoted if it could be read as anything but text
};
struct YamlSection {
  std::string heading;  // lower-case letters, digits and underscores
  std::vector<YamlValue> values;
};
// YAML in block style, one key a line; a section without values is left out. UsageError for a word
// that is not UTF-8, because YAML cannot hold it.
std::string yaml_text(const std::vector<YamlSection>& sections);

}  // namespace phalanx
