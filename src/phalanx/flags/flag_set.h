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

// A row of a set, and what was read for it.
struct FlagRow {
  FlagSpec spec;
  FlagType type = FlagType::kSwitch;
  FlagTarget target;
  std::string section;
  std::string default_text;        // the value before anything was read; empty: none
  std::string source;              // where it was given: as it was typed, or FILE:LINE:COLUMN
  std::string spelling;            // the name by which it was given
  std::vector<std::string> words;  // words of the value, as given
  bool is_implied = false;         // whether a flag that stands for others has set it
  bool is_given() const { return !source.empty(); }
};

// A word without dashes after the command.
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

// What a file of another program's settings means: flags, and messages.
struct FileFlags {
  struct Given {
    std::string name;                // --zero-stage
    std::vector<std::string> words;  // "false" of a switch that the file has off
    std::string place;               // beginning of messages: "FILE: zero_optimization.stage"
  };
  std::vector<Given> flags;
  std::vector<std::string> notes;
  std::vector<std::string> misuses;  // messages about what cannot be read
  std::vector<std::string>
      faults;  // messages about values that are impossible or contradict each other
};

// Reads such a file.
class SettingsFile {
 public:
  virtual ~SettingsFile() = default;
  SettingsFile(const SettingsFile&) = delete;
  SettingsFile& operator=(const SettingsFile&) = delete;

  // Reads the file alone.
  virtual FileFlags read(const std::string& path) = 0;
  // What follows from the file together with all flags, once their values are known.
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
  std::vector<std::string> verbs = {};  // if the command has verbs: one of these words follows
  std::vector<std::pair<std::string, std::string>> words = {};     // without dashes: name, help
  std::vector<std::pair<std::string, std::string>> examples = {};  // a call, what it does
};

class FlagSet {
 public:
  // `command` as it is typed: "phalanx pretrain gpt".
  FlagSet(std::string command, std::string description);

  // The heading of the flags that follow.
  void section(std::string title) { section_ = std::move(title); }
  // Adds a row. The value of `variable` is the default; the variable must outlive the set.
  void add(const FlagSpec& spec, FlagTarget target = {});
  // The same; `spec` has the other fields of the flag.
  void add(std::string_view name, std::string_view help, FlagTarget variable, FlagSpec spec = {}) {
    spec.name = name;
    spec.help = help;
    add(spec, variable);
  }
  void add_positional(Positional positional) { positionals_.push_back(std::move(positional)); }
  // Adds an example for the end of --help: a call and what it does.
  void add_example(std::string call, std::string meaning);
  // Adds --yaml-cfg, --yaml-env and --print-yaml.
  void add_yaml();
  // Adds a flag that names a file of another program's settings. `file` translates it to flags,
  // over which the command line wins. A set has at most one such flag.
  void add_settings(const FlagSpec& spec, std::shared_ptr<SettingsFile> file);
  // Says that the command only plans: it accepts refused flags whose rows say what a plan does with
  // them.
  void plan_only() { plans_ = true; }
  // The program whose flags the table answers for, in --help: "Megatron".
  void answers_for(std::string program) { program_ = std::move(program); }

  // Reads a call. Throws HelpRequested for --help, and for faults, one line each: UsageError (64),
  // or ConfigError (78) if all words could be read and values are impossible or contradict each
  // other. `complete` is called when the values are known, before missing and contradictory flags
  // are looked for: it may set_default(). `judge` is called if all words could be read and nothing
  // is missing: the lines of a ConfigError that it throws become faults of the call.
  void parse(const std::vector<std::string>& arguments,
             const std::function<void()>& complete = nullptr,
             const std::function<void()>& judge = nullptr);

  bool given(std::string_view name) const;
  // Where a flag was given (the `source` of its row); empty if it was not.
  const std::string& source(std::string_view name) const;
  // Whether a call must give the flag.
  bool is_required(const FlagRow& row) const;
  // Notes for the start of a run: flags that are satisfied, old names, what a plan does with a
  // flag, and one note with all flags that are passed over.
  const std::vector<std::string>& notes() const { return notes_; }
  // Whether --print-yaml was given: the call is printed and nothing is run.
  bool prints_yaml() const { return print_yaml_; }
  // The call as a YAML file that means the same.
  std::string to_yaml() const;

  // Every flag that has a variable, with its value as text (text_of), in order.
  std::vector<std::pair<std::string, std::string>> values() const;
  // Sets a flag that is not given to `text` (as values() has it), as if that were its default. Does
  // nothing for an unknown name. UsageError if the text is not a value of the flag.
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
  std::unordered_map<std::string, std::size_t> places_;  // indices of rows, by canonical name
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

// The candidate nearest to `word` by edits, if it is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace phalanx
