#pragma once
// What the completion scripts of all shells are made of.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/views.h"

namespace phalanx {

// What a shell completes after a flag. kText: nothing, because only the user knows it.
enum class Takes : std::uint8_t { kNothing, kNumber, kChoice, kFile, kText };

Takes takes(const FlagRow& row);

// Whether shells complete the flag. Refused flags are not completed.
bool is_offered(const FlagRow& row);

// The description of a flag, one line.
std::string description_of(const FlagRow& row);

// A backslash before each of some characters.
std::string escaped(std::string_view text, std::string_view characters);

// Commands as a tree: a node for each beginning of a command's words.
struct CommandNode {
  std::string path;                // " dataset info"; empty at the root
  std::vector<std::string> words;  // words that may come next
  // The command that these words name; null: they are only the beginning of others.
  const CommandFlags* command = nullptr;
  // The path of a command that has the same flags and describes them; empty: none.
  std::string same_as = {};
  // The paths of the commands that refer to this one for their flags.
  std::vector<std::string> others = {};
};

// The nodes, the root first. They point into `commands`.
std::vector<CommandNode> tree_of(const std::vector<CommandFlags>& commands);
// The description of the command with this path; empty if it is only the beginning of others.
std::string description_of(const std::vector<CommandNode>& nodes, const std::string& path);

std::string fish_script(const std::vector<CommandNode>& nodes);

}  // namespace phalanx
