#pragma once
// What people and shells see of the flags of a command.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/flags/flag_set.h"

namespace phalanx {

// The text of --help: the call; the flags by section, one line each, required ones marked, refused
// ones left out; examples at the end. Lines are at most 100 columns wide if their words allow it.
std::string help_text(const FlagSet& flags);

// The list of arguments that Megatron prints at its start, with its two lines around it: every flag
// that has or could have a value, sorted without regard to case; names have underscores, values are
// as Python prints them (True, None).
std::string arguments_text(const std::vector<FlagRow>& rows);

// A command, for completion: its words ("pretrain gpt", "dataset info"), what it does, its flags.
struct CommandFlags {
  std::string words;
  std::string help;
  std::vector<FlagRow> rows;
  bool takes_files = false;                   // names of files may follow
  std::vector<std::string> other_words = {};  // commands with the same flags: "pretrain bert"
};

// A completion script for bash, zsh or fish. It completes commands, verbs, flags, the choices of
// flags, and files if the value of a flag is called FILE, DIR, PATH or PREFIX. UsageError for
// another shell.
std::string completion_script(std::string_view shell, const std::vector<CommandFlags>& commands);

// The page of all flags (docs/flags.md): a table for each section of the training flags, by state,
// then the flags of the other commands.
std::string flags_page(const std::vector<CommandFlags>& commands);

// A page of the manual about a command. Parts that are empty are left out.
struct ManPage {
  using Entry = std::pair<std::string, std::string>;  // what it is called, what it means
  std::string command;                                // as it is typed: "phalanx dataset info"
  std::string version;                                // "0.1.0"
  std::string meaning;                                // a line
  std::string usage;                                  // a call: "phalanx dataset info [FLAGS]"
  std::string description;
  std::vector<Entry> words = {};      // words without dashes
  std::vector<FlagRow> rows = {};     // those that do not work are counted, and not listed
  std::vector<Entry> commands = {};   // commands that have pages of their own: "phalanx dataset"
  std::vector<Entry> statuses = {};   // exit codes
  std::vector<Entry> examples = {};   // a call, what it does
  std::vector<std::string> see = {};  // other commands: "phalanx"
};

// The page as roff, for man(1).
std::string man_page(const ManPage& page);

// The page's name: phalanx-dataset-info for "phalanx dataset info".
std::string man_page_name(std::string_view command);

}  // namespace phalanx
