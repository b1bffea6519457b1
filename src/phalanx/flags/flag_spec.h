#pragma once
// What a program can be told: flags, as rows of tables. A row says everything there is to know
// about a flag - names, type, bounds, what it goes with, what becomes of it, what a resumed run may
// do with it. The parser, YAML files, --help, the list of arguments at the start of a run, shell
// completion and docs/flags.md are views of the rows.
//
// Lists within a row are words between blanks ("--bf16 --fp16"), so that a row is a constant.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace phalanx {

// What follows a flag on the command line.
enum class FlagType : std::uint8_t {
  kSwitch,   // nothing
  kInteger,  // decimal digits
  kReal,     // a finite number
  kText,
  kNumbers,  // numbers between commas or slashes, one argument: "969, 30, 1"
  kList,     // one argument or more
};

// What becomes of a flag.
enum class FlagState : std::uint8_t {
  kWorks,
  kSatisfied,   // what it asks for is how Phalanx always does it: said once, when it is given
  kPassedOver,  // no result depends on it: one note names all of these that are given
  kRefused,     // an error that says why and what to use instead
};

// What a resumed run may do with a flag's value.
enum class ResumeClass : std::uint8_t {
  kFree,
  kWarned,    // another value than the checkpoint's is said
  kSchedule,  // of the learning rate and weight decay: what the flags come to is compared
  kState,     // refused where different, unless what the optimizer keeps is left in the checkpoint
  kFixed,     // refused where different, unless a new run begins from the weights
  kShape,     // refused there too: the weights themselves depend on it
};

struct FlagRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool excludes_least = false;
  bool excludes_most = false;
};
constexpr FlagRange at_least(double least) { return {.least = least}; }
constexpr FlagRange above(double least) { return {.least = least, .excludes_least = true}; }
constexpr FlagRange from_to(double least, double most) { return {.least = least, .most = most}; }
// At least 0 and below 1.
constexpr FlagRange share_below_one() { return {.least = 0.0, .most = 1.0, .excludes_most = true}; }
// Above 0 and below 1.
constexpr FlagRange share_between() {
  return {.least = 0.0, .most = 1.0, .excludes_least = true, .excludes_most = true};
}

struct FlagSpec {
  std::string_view name;  // with its dashes
  // Other spellings of today, and those of earlier versions, whose use is said. Underscores and
  // dashes are the same in every spelling and need no alias.
  std::string_view aliases = {};
  std::string_view old_names = {};
  // Keys of YAML files where they are called otherwise.
  std::string_view yaml_keys = {};
  FlagType type = FlagType::kSwitch;  // of a bound flag: the variable's
  std::string_view help = {};         // a line
  std::string_view value_name = {};   // in --help: N, X, TEXT by the type where empty
  // A flag that means others and has no variable of its own: "--recompute-granularity full", where
  // @ is the given value. They count where they are not given themselves.
  std::string_view stands_for = {};
  bool is_old = false;  // an earlier version's, which people are told
  bool required = false;
  bool required_to_train = false;         // a plan does without
  std::string_view required_unless = {};  // required (to train), but not beside one of these
  FlagRange range = {};
  std::string_view choices = {};      // the only values there are
  std::string_view same_values = {};  // other words for some of them: "auto=fused flash=fused"
  std::string_view needs = {};        // flags of which one must be given (or switched on) too
  bool needs_always = false;          // also with the value that it has where it is not given
  std::string_view excludes = {};     // flags that must not be given too
  bool may_be_empty = false;          // texts: "" is a value, not a script's unset variable
  bool accumulates = false;           // lists: given twice, both count; an argument may be A,B
  ResumeClass resume = ResumeClass::kFree;
  FlagState state = FlagState::kWorks;
  // Of a satisfied flag: why it needs nothing; of one that is passed over: why no result depends on
  // it; of a refused one: why, and what to use instead.
  std::string_view reason = {};
  // Of a flag that is passed over: where what it is for is found, a clause for the note.
  std::string_view instead = {};
  // Where a flag is satisfied for these values alone: the others are refused, for this reason.
  std::string_view satisfied_by = {};
  std::string_view otherwise = {};
  // A refused flag that a plan takes, for it does not depend on it: what it plans then.
  std::string_view planned = {};
  std::string_view since = "0.1";  // the version of Phalanx in which the state became what it is
};

// Where a flag's value lies; the value there is the default. None: a flag that sets nothing.
using FlagTarget = std::variant<std::monostate, bool*, std::int64_t*, double*,
                                std::optional<double>*, std::string*, std::vector<std::string>*>;

// The one spelling of a name: --num-layers of "--num_layers" and of "num_layers".
std::string canonical_name(std::string_view spelling);

// Whether the flag has this name, in whatever spelling; old names count.
bool answers_to(const FlagSpec& spec, std::string_view name);

// The words of a row's list.
std::vector<std::string_view> words_of(std::string_view list);

// The type that a variable has.
FlagType type_of(const FlagTarget& target, FlagType declared);

// A value as text, the same for equal values: what checkpoints keep. Empty where there is none.
std::string text_of(const FlagTarget& target);

// What text_of() said, as it is given on the command line: the words of a list, else one.
std::vector<std::string> words_of_text(FlagType type, std::string_view text);

// The text in the one form that equal values share ("90, 10,0" is "90,10,0" and 010 is 10); as it
// is where it is no value of the type.
std::string canonical_value(FlagType type, std::string_view text);

// Why the text is no value of the type, nothing if it is one: "is not a number".
std::optional<std::string> type_fault(FlagType type, std::string_view value);

// What is wrong with a value as the row sees it, nothing if all is well: "must be at least 1".
std::optional<std::string> fault_of(const FlagSpec& spec, FlagType type, std::string_view value);

// Sets the variable. The reason, where the words are no value of its type.
std::optional<std::string> assign(const FlagTarget& target, FlagType type,
                                  const std::vector<std::string>& words);

// How a value is written in help and in error messages: N, X, TEXT.
std::string_view value_name(const FlagSpec& spec, FlagType type);

}  // namespace phalanx
