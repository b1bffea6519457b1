#pragma once
// Flags in YAML files: keys are the names of flags with underscores, flat or below any headings.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// A key with its value, or a heading, which has no words.
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
// --yaml-env.
// $${ is the text ${ in either case. DataError (65) with FILE:LINE:COLUMN (in bytes, from 1) for
// what is no YAML or no UTF-8, keys that occur twice (whatever heading they are below; dashes are
// underscores), anchors, aliases, tags, several documents, a list of anything but scalars, more
// than kMostYamlDepth headings within each other, files above kMostYamlBytes.
YamlContents parse_yaml(std::string_view text, std::string_view file,
                        const Environment& environment = nullptr);
// The same of a regular file: InputMissingError where it is not there.
YamlContents read_yaml(const std::string& path, const Environment& environment = nullptr);

inline constexpr std::size_t kMostYamlBytes = std::size_t{1} << 20;
inline constexpr int kMostYamlDepth = 8;

// What is printed below a heading. Words are as on the command line; parse_yaml() gives them back.
struct YamlValue {
  std::string key;
  std::vector<std::string> words = {};
  bool is_list = false;
  bool is_text = false;  // quoted wherever it could be read as anything but text
};
struct YamlSection {
  std::string heading;  // of lower-case letters, digits and underscores
  std::vector<YamlValue> values;
};
// Block style, a key a line; a section without values is left out. UsageError for a word that is no
// UTF-8, which YAML cannot hold.
std::string yaml_text(const std::vector<YamlSection>& sections);

}  // namespace phalanx
