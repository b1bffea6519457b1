#pragma once
// The flags of one command: bound to variables, parsed, explained, and written down again for
// checkpoints. A flag given twice: the last wins. An unknown one is an error that names the
// nearest.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

// Thrown by Flags::parse for --help: the text for standard output.
struct HelpRequested {
  std::string text;
};

class Flags {
 public:
  // `command` as it is typed: "phalanx pretrain gpt".
  Flags(std::string command, const std::string& description);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // The heading of the flags that follow.
  void section(std::string title);
  // `name` with its dashes. The variable's value is the default and must outlive the parse.
  void add(std::string_view name, std::int64_t& value, std::string_view help);
  void add(std::string_view name, double& value, std::string_view help);
  void add(std::string_view name, std::optional<double>& value, std::string_view help);
  void add(std::string_view name, std::string& value, std::string_view help);
  // One or more values.
  void add(std::string_view name, std::vector<std::string>& values, std::string_view help);
  void add_switch(std::string_view name, bool& value, std::string_view help);
  // A word without dashes.
  void add_positional(std::string_view name, std::vector<std::string>& values, int at_least,
                      int at_most, std::string_view help);

  // UsageError for what cannot be read; HelpRequested.
  void parse(const std::vector<std::string>& arguments);

  bool given(std::string_view name) const;
  // Every flag with its value as text, in order: "true" or "false" for a switch, empty where there
  // is none.
  std::vector<std::pair<std::string, std::string>> values() const;
  // Arguments that make parse() set the flags to `values`; unknown names are left out.
  std::vector<std::string> arguments_from(
      const std::vector<std::pair<std::string, std::string>>& values) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The candidate with the fewest edits to `word`, if it is near enough to be meant.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace phalanx
