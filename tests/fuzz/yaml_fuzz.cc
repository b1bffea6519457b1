// Any bytes as a YAML file: they are refused with a place, or read; and what was read comes back
// when it is written and read again.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/flags/yaml_file.h"
#include "require.h"

namespace phalanx {
namespace {

constexpr std::string_view kFile = "fuzz.yaml";
constexpr std::size_t kLongestKey = 500;  // longer ones are read in their long form alone: "? key"

std::optional<std::string> some_variables(const std::string& name) {
  if (name.ends_with('_')) return {};
  return "<" + name + "> ${A}";
}

// Nothing where the file is refused.
std::optional<std::vector<YamlEntry>> read(std::string_view text, const Environment& environment) {
  try {
    return parse_yaml(text, kFile, environment).entries;
  } catch (const DataError& error) {
    require(std::string_view(error.what()).starts_with(kFile), "without a place: {}", error.what());
    return {};
  }
}

bool is_long(const YamlEntry& entry) { return entry.key.size() > kLongestKey; }

void check_that_it_comes_back(std::vector<YamlEntry> entries, bool is_text) {
  std::erase_if(entries, is_long);
  YamlSection section{.heading = "all", .values = {}};
  for (const YamlEntry& entry : entries) {
    section.values.push_back(
        {.key = entry.key, .words = entry.words, .is_list = entry.is_list, .is_text = is_text});
  }
  const std::string text = yaml_text({section});
  const auto again = parse_yaml(text, kFile).entries;
  require(again.size() == entries.size(), "{} entries, then {}:\n{}", entries.size(), again.size(),
          text);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool is_same = again[i].key == entries[i].key && again[i].words == entries[i].words &&
                         again[i].is_list == entries[i].is_list;
    require(is_same, "entry {} is another:\n{}", i, text);
  }
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool with_environment : {false, true}) {
    const auto entries = phalanx::read(
        text, with_environment ? phalanx::some_variables : phalanx::Environment(nullptr));
    if (entries) phalanx::check_that_it_comes_back(*entries, with_environment);
  }
  return 0;
}
