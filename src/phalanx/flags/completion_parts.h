#pragma once
// What the completion scripts of all shells are made of.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/views.h"

namespace phalanx {

// What is completed behind a flag.
// kText: nothing, for only the user knows it.
enum class Takes : std::uint8_t { kNothing, kNumber, kChoice, kFile, kText };

Takes takes(const FlagRow& row);

// Refused flags are not.
bool is_offered(const FlagRow& row);

// A flag's description: a line.
std::string description_of(const FlagRow& row);

// A backslash before each of some characters.
std::string escaped(std::string_view text, std::string_view characters);

// Commands as a tree of their words.
struct CommandNode {
  std::string path;                       // " dataset info"; empty at the root
  std::vector<std::string> words;         // that may come next
  const CommandFlags* command = nullptr;  // that these words are
  // Of a command that has all flags of this one: its path. They are told of there.
  std::string same_as = {};
  std::vector<std::string> others = {};  // the paths of those
};

// The root first. They point to the commands.
std::vector<CommandNode> tree_of(const std::vector<CommandFlags>& commands);
// The description of the command with this path; empty where it is only the beginning of others.
std::string description_of(const std::vector<CommandNode>& nodes, const std::string& path);

std::string fish_script(const std::vector<CommandNode>& nodes);

}  // namespace phalanx
