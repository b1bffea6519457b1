#include <fmt/format.h>

#include "phalanx/flags/completion_parts.h"
#include "phalanx/flags/row_text.h"

namespace phalanx {
namespace {

// A word quoted for fish, where backslashes count between quotes.
std::string fish_quoted(std::string_view text) { return fmt::format("'{}'", escaped(text, "'\\")); }

constexpr std::string_view kFish = R"(# Completion of phalanx in fish.
# phalanx completion fish > ~/.config/fish/completions/phalanx.fish

# The words before the cursor are these.
function __phalanx_typed
    set -l typed (commandline -opc)
    test "$typed[2..-1]" = "$argv"
end

# They begin with these: the command is this one.
function __phalanx_in
    set -l typed (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $typed) -ge $last; and test "$typed[2..$last]" = "$argv"
end

# The last flag is one of these.
function __phalanx_behind
    set -l flags (string match -- '--*' (commandline -opc))
    set -q flags[1]; and contains -- $flags[-1] $argv
end

complete -c phalanx -f
)";

std::string fish_command_words(const std::vector<CommandNode>& nodes) {
  std::string text;
  for (const CommandNode& node : nodes) {
    const std::string condition = fish_quoted("__phalanx_typed" + node.path);
    for (const auto& word : node.words) {
      text += fmt::format("complete -c phalanx -n {} -a {} -d {}\n", condition, fish_quoted(word),
                          fish_quoted(description_of(nodes, node.path + " " + word)));
    }
  }
  return text;
}

// fish reads the choices once more when it completes.
std::string fish_choices(const FlagRow& row) {
  std::string words;
  for (const std::string_view word : allowed_values(row.spec)) {
    words += (words.empty() ? "" : " ") + fish_quoted(word);
  }
  return "-a " + fish_quoted(words);
}

std::string fish_flag(const FlagRow& row, const std::string& in_command) {
  const std::string_view name = row.spec.name.substr(row.spec.name.find_first_not_of('-'));
  std::string value;
  switch (takes(row)) {
    case Takes::kNothing:
      break;
    case Takes::kNumber:
    case Takes::kText:
      value = " -x";
      break;
    case Takes::kFile:
      value = " -r -F";
      break;
    case Takes::kChoice:
      value = " -x " + fish_choices(row);
      break;
  }
  std::string text =
      fmt::format("complete -c phalanx -n {} -l {}{} -d {}\n", fish_quoted(in_command), name, value,
                  fish_quoted(description_of(row)));
  // After the first value of a list more may follow.
  if (row.type == FlagType::kList && takes(row) != Takes::kText) {
    text += fmt::format(
        "complete -c phalanx -n {} {}\n",
        fish_quoted(fmt::format("{}; and __phalanx_behind {}", in_command, row.spec.name)),
        takes(row) == Takes::kChoice ? fish_choices(row) : "-F");
  }
  return text;
}

}  // namespace

std::string fish_script(const std::vector<CommandNode>& nodes) {
  std::string text = std::string(kFish) + "complete -c phalanx -l help -d 'What the flags are'\n" +
                     fish_command_words(nodes);
  for (const CommandNode& node : nodes) {
    if (node.command == nullptr || !node.same_as.empty()) continue;
    std::string in_command;
    for (const std::string& other : node.others) in_command += "__phalanx_in" + other + "; or ";
    in_command += "__phalanx_in" + node.path;
    if (node.command->takes_files) {
      text += fmt::format("complete -c phalanx -n {} -F\n", fish_quoted(in_command));
    }
    for (const FlagRow& row : node.command->rows) {
      if (is_offered(row)) text += fish_flag(row, in_command);
    }
  }
  return text;
}

}  // namespace phalanx
