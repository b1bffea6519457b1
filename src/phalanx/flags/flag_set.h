#pragma once
// The flags of one command: rows bound to variables, read from a command line, from YAML files and
// from files of other programs' settings.
// A flag given twice: the last wins; the command line wins over files. Whatever is wrong with a
// call is told at once, not the first fault alone.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "phalanx/flags/flag_spec.h"

namespace phalanx {

// A row of a set, and what became of it.
struct FlagRow {
  FlagSpec spec;
  FlagType type = FlagType::kSwitch;
  FlagTarget target;
  std::string section;
  std::string default_text;        // before anything was read; empty: none
  std::string source;              // where it was given: as it was typed, or FILE:LINE:COLUMN
  std::string spelling;            // the name that was given
  std::vector<std::string> words;  // that were given
  bool is_implied = false;         // by a flag that stands for others
  bool is_given() const { return !source.empty(); }
};

// A word without dashes behind the command.
struct Positional {
  std::string name;
  std::string help;
  std::vector<std::string>* values = nullptr;
  int least = 0;
  int most = 0;
};

class FlagSet;
struct FlagOccurrence;
struct FlagReading;

// What a file of another program's settings comes to: flags, and what is to be said.
struct FileFlags {
  struct Given {
    std::string name;                // --zero-stage
    std::vector<std::string> words;  // "false" of a switch that the file has off
    std::string place;               // that messages begin with: "FILE: zero_optimization.stage"
  };
  std::vector<Given> flags;
  std::vector<std::string> notes;
  std::vector<std::string> misuses;  // what cannot be read
  std::vector<std::string> faults;   // values that are not possible or contradict each other
};

// Reads such a file.
class SettingsFile {
 public:
  virtual ~SettingsFile() = default;
  SettingsFile(const SettingsFile&) = delete;
  SettingsFile& operator=(const SettingsFile&) = delete;

  // What the file says by itself.
  virtual FileFlags read(const std::string& path) = 0;
  // What follows from it and from all flags, when their values are there.
  virtual FileFlags settle(const FlagSet& flags) = 0;

 protected:
  SettingsFile() = default;
};

// Thrown by parse() for --help: the text for standard output, and what it was made of.
struct HelpRequested {
  std::string text;
  std::string command = {};  // as it is typed
  std::string description = {};
  std::vector<FlagRow> rows = {};
  bool takes_words = false;             // without dashes
  std::vector<std::string> verbs = {};  // of a command that is several: one of these follows
};

class FlagSet {
 public:
  // `command` as it is typed: "phalanx pretrain gpt".
  FlagSet(std::string command, std::string description);

  // The heading of the flags that follow.
  void section(std::string title) { section_ = std::move(title); }
  // The variable's value is the default, and it must outlive the set.
  void add(const FlagSpec& spec, FlagTarget target = {});
  void add_positional(Positional positional) { positionals_.push_back(std::move(positional)); }
  // A call with what it does, for the end of --help.
  void add_example(std::string call, std::string meaning);
  // Adds --yaml-cfg, --yaml-env and --print-yaml.
  void add_yaml();
  // Adds a flag that names a file of another program's settings, which `file` makes flags of: the
  // command line wins over them. One of a set.
  void add_settings(const FlagSpec& spec, std::shared_ptr<SettingsFile> file);
  // The command only plans: flags whose rows say what is planned are taken although they are
  // refused.
  void plan_only() { plans_ = true; }
  // Whose flags the table answers for, in --help: "Megatron".
  void answers_for(std::string program) { program_ = std::move(program); }

  // Every fault of the call, a line each: UsageError (64), or ConfigError (78) where all of it
  // could be read and the values are not possible or contradict each other. HelpRequested.
  // `complete` is called when the values are there, before it is judged what is missing or does not
  // go together: it may set_default(). `judge` is called where all words could be read and nothing
  // is missing: the lines of a ConfigError that it throws are faults of the call like the others.
  void parse(const std::vector<std::string>& arguments,
             const std::function<void()>& complete = nullptr,
             const std::function<void()>& judge = nullptr);

  bool given(std::string_view name) const;
  // Where a flag was given, as its row has it; empty where it was not.
  const std::string& source(std::string_view name) const;
  // Whether a call must give it.
  bool is_required(const FlagRow& row) const;
  // What to say at the start: flags that are satisfied, old names, what a plan does with a flag,
  // and in one note those that are passed over.
  const std::vector<std::string>& notes() const { return notes_; }
  // --print-yaml: the call is to be printed, not obeyed.
  bool prints_yaml() const { return print_yaml_; }
  // The call as a YAML file that makes it again.
  std::string to_yaml() const;

  // Every flag that has a variable with its value as text, in order (text_of).
  std::vector<std::pair<std::string, std::string>> values() const;
  // Sets a flag to what values() said of it, as if it were its default; does nothing where the name
  // is no flag's or the flag is given. UsageError where the text is no value of it.
  void set_default(std::string_view name, const std::string& text);

  const std::string& command() const { return command_; }
  const std::string& description() const { return description_; }
  const std::string& program() const { return program_; }
  const std::vector<FlagRow>& rows() const { return rows_; }
  const std::vector<Positional>& positionals() const { return positionals_; }
  const std::vector<std::pair<std::string, std::string>>& examples() const { return examples_; }

 private:
  FlagRow* find(std::string_view name);
  const FlagRow* find(std::string_view name) const;
  bool is_on(std::string_view name) const;
  std::optional<std::string> nearest_flag(std::string_view name) const;

  void scan(const std::vector<std::string>& arguments, FlagReading& reading);
  std::pair<FlagRow*, bool> row_of_key(const std::string& key);
  void read_yaml_file(FlagReading& reading);
  void read_settings_file(FlagReading& reading);
  void settle_settings_file(FlagReading& reading);
  std::vector<FlagOccurrence> occurrences_of(const FileFlags& file, FlagReading& reading);
  void apply(const FlagOccurrence& occurrence, FlagReading& reading);
  void replace(const FlagRow& row, FlagReading& reading);
  void answer(const FlagRow& row, FlagReading& reading);
  void tell_passed_over();
  void check_together(FlagReading& reading) const;

  std::string command_, description_;
  std::string section_ = "Flags";
  std::string program_ = "Megatron";
  std::vector<FlagRow> rows_;
  std::unordered_map<std::string, std::size_t> places_;  // of rows, by canonical names
  std::vector<Positional> positionals_;
  std::vector<std::pair<std::string, std::string>> examples_;
  std::vector<std::string> notes_;
  std::string yaml_file_;
  std::shared_ptr<SettingsFile> settings_;
  std::string settings_file_;
  bool yaml_env_ = false;
  bool print_yaml_ = false;
  bool plans_ = false;
};

// The candidate with the fewest edits to `word`, if it is near enough to be meant.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace phalanx
