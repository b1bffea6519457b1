// Any words as a command line, with any file of flags: they are refused with a reason, or read; and
// the file that a call is printed as sets the same values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory_file.h"
#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"
#include "require.h"

namespace phalanx {
namespace {

// A row of every kind.
struct Flags {
  bool on = false;
  bool off = false;
  bool usual = true;
  std::int64_t size = 1;
  std::int64_t from_two_to_five = 2;
  double rate = 0.5;
  std::optional<double> share;
  std::string path = "here";
  std::string style = "linear";
  std::string split = "969, 30, 1";
  std::string note;
  std::vector<std::string> paths;
  std::vector<std::string> names;
  FlagSet set{"phalanx fuzz", "Takes any words"};

  explicit Flags(bool plans) {
    set.add({.name = "--on", .aliases = "--enable", .old_names = "--switch-on"}, &on);
    set.add({.name = "--off", .needs = "--on --size", .excludes = "--path"}, &off);
    set.add({.name = "--usual", .yaml_keys = "common !rare"}, &usual);
    set.section("Model's numbers");
    set.add({.name = "--size", .old_names = "--width", .range = at_least(1)}, &size);
    set.add({.name = "--from-two-to-five", .range = from_to(2, 5)}, &from_two_to_five);
    set.add({.name = "--rate", .range = above(0)}, &rate);
    set.add({.name = "--share", .range = share_below_one()}, &share);
    set.section("Text");
    set.add({.name = "--path", .may_be_empty = true}, &path);
    set.add({.name = "--style", .choices = "linear cosine none"}, &style);
    set.add({.name = "--split", .type = FlagType::kNumbers}, &split);
    set.add({.name = "--paths"}, &paths);
    set.add({.name = "--names", .accumulates = true}, &names);
    set.section("Without variables");
    set.add({.name = "--full", .stands_for = "--on --style cosine --rate 2"});
    set.add({.name = "--method", .type = FlagType::kText, .stands_for = "--size 3 --style @"});
    set.add({.name = "--always", .state = FlagState::kSatisfied, .reason = "it is always so"});
    set.add({.name = "--kind",
             .type = FlagType::kText,
             .state = FlagState::kSatisfied,
             .reason = "there is no other",
             .satisfied_by = "local torch",
             .otherwise = "there is only the local one"});
    set.add({.name = "--never",
             .type = FlagType::kList,
             .state = FlagState::kRefused,
             .reason = "not here",
             .planned = "the plan does not depend on it"});
    set.section("Text");  // goes on
    set.add({.name = "--note"}, &note);
    set.add_yaml();
    if (plans) set.plan_only();
  }

  // Without those of the file itself.
  std::vector<std::pair<std::string, std::string>> values() const {
    auto all = set.values();
    const std::set<std::string> left_out = {"--yaml-cfg", "--yaml-env", "--print-yaml"};
    std::erase_if(all, [&](const auto& value) { return left_out.contains(value.first); });
    return all;
  }
};

// Whether the words are a call; what is none is refused by an error for its user.
bool parses(Flags& flags, const std::vector<std::string>& words) {
  try {
    flags.set.parse(words);
    return true;
  } catch (const HelpRequested&) {
    return false;
  } catch (const Error& error) {
    require(error.code() != ErrorCode::kInternal, "{}", error.what());
    require(*error.what() != '\0', "an error without a message");
    return false;
  }
}

// What is no UTF-8 cannot be printed as YAML.
std::optional<std::string> yaml_of(const Flags& flags) {
  try {
    return flags.set.to_yaml();
  } catch (const UsageError&) {
    return {};
  }
}

// A word a line; behind a line "===" the file of flags. A first line "plan" is no word.
struct Input {
  bool plans = false;
  std::vector<std::string> words;
  std::optional<std::string> file;
};

Input input_of(std::string_view text) {
  constexpr std::string_view kPlan = "plan\n";
  Input input;
  input.plans = text.starts_with(kPlan);
  if (input.plans) text.remove_prefix(kPlan.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(std::string_view("\n\0", 2)), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line == "===") {
      input.file = text;
      break;
    }
    input.words.emplace_back(line);
  }
  return input;
}

void check(std::string_view text) {
  static const MemoryFile file;
  Input input = input_of(text);
  if (input.file) {
    file.write(*input.file);
    input.words.insert(input.words.end(), {"--yaml-cfg", file.path()});
  }
  Flags flags(input.plans);
  if (!parses(flags, input.words)) return;
  const auto yaml = yaml_of(flags);
  if (!yaml) return;

  file.write(*yaml);
  Flags again(input.plans);
  require(parses(again, {"--yaml-cfg", file.path()}), "the printed file is refused:\n{}", *yaml);
  const auto values = flags.values();
  const auto values_again = again.values();
  require(values.size() == values_again.size(), "other flags");
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(values[i] == values_again[i], "{} was '{}' and is '{}' in the printed file:\n{}",
            values[i].first, values[i].second, values_again[i].second, *yaml);
  }
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  phalanx::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
