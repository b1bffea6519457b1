#pragma once
// Flags, as rows of tables. A row says everything about a flag: names, type, bounds, which flags it
// needs or excludes, whether it works, what a resumed run may do with it. The parser, YAML files,
// --help, the list of arguments at the start of a run, shell completion and docs/flags.md are views
// of the rows.
//
// Lists within a row are words separated by blanks ("--bf16 --fp16"), so that a row is a constant.

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
  kList,     // one argument or more; of whole numbers, where its variable is
};

// What a flag does.
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
  kSchedule,  // the schedules of learning rate and weight decay are compared, not this flag alone
  kState,     // another value is refused, unless the optimizer's state is not loaded
  kFixed,     // another value is refused, unless a new run begins from the weights
  kShape,     // another value is always refused: the shape of the weights depends on it
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
  std::string_view name = {};  // with its dashes
  // Other spellings, and those of earlier versions, whose use is reported. Underscores and dashes
  // mean the same and need no alias.
  std::string_view aliases = {};
  std::string_view old_names = {};
  // Other keys of the flag in YAML files.
  std::string_view yaml_keys = {};
  FlagType type = FlagType::kSwitch;  // for a bound flag: the type of its variable
  std::string_view help = {};         // a line
  std::string_view value_name = {};   // in --help; empty: N, X, TEXT by the type
  // For a flag that stands for others and has no variable: "--recompute-granularity full"; @ is the
  // given value. A flag that is given itself wins.
  std::string_view stands_for = {};
  bool is_old = false;  // a flag of an earlier version: a note says so
  bool required = false;
  bool required_to_train = false;         // a plan does not need it
  std::string_view required_unless = {};  // required (to train), but not beside one of these
  FlagRange range = {};
  std::string_view choices = {};      // the only possible values
  std::string_view same_values = {};  // other words for some of them: "auto=fused flash=fused"
  std::string_view needs = {};        // flags of which one must be given (or switched on) too
  bool needs_always = false;          // `needs` holds for the default value, too
  std::string_view excludes = {};     // flags that must not be given too
  bool may_be_empty = false;          // texts: "" is a value, not a script's unset variable
  bool accumulates = false;           // lists: given twice, both count; an argument may be A,B
  ResumeClass resume = ResumeClass::kFree;
  FlagState state = FlagState::kWorks;
  // The reason: why a satisfied flag needs nothing, why no result depends on a passed-over one, or
  // why a flag is refused and what to use instead.
  std::string_view reason = {};
  // For a passed-over flag: a clause that says what to use for its purpose.
  std::string_view instead = {};
  // For a flag that is satisfied for some values only: why the others are refused.
  std::string_view satisfied_by = {};
  std::string_view otherwise = {};
  // For a refused flag that a plan accepts, because the plan does not depend on it: what is
  // planned.
  std::string_view planned = {};
  std::string_view since = "0.1";  // the version of Phalanx that gave the flag this state
};

// The variable of a flag; its first value is the default. Empty: the flag sets nothing.
using FlagTarget =
    std::variant<std::monostate, bool*, std::int64_t*, double*, std::optional<double>*,
                 std::string*, std::vector<std::string>*, std::vector<std::int64_t>*>;

// The canonical spelling of a name: --num-layers for "--num_layers" and "num_layers".
std::string canonical_name(std::string_view spelling);

// Whether the flag has this name, in any spelling; old names count.
bool answers_to(const FlagSpec& spec, std::string_view name);

// The words of a row's list.
std::vector<std::string_view> words_of(std::string_view list);

// The type that a variable has.
FlagType type_of(const FlagTarget& target, FlagType declared);

// A value as text, the same for equal values: what checkpoints keep. Empty if there is no value.
std::string text_of(const FlagTarget& target);

// The inverse: the words by which the command line gives the value (several for a list).
std::vector<std::string> words_of_text(FlagType type, std::string_view text);

// The text in canonical form ("90, 10,0" becomes "90,10,0", 010 becomes 10); unchanged if it is not
// a value of the type.
std::string canonical_value(FlagType type, std::string_view text);

// Why the text is not a value of the type: "is not a number". Nothing if it is one.
std::optional<std::string> type_fault(FlagType type, std::string_view value);

// What the row forbids about a value: "must be at least 1". Nothing if it is allowed.
std::optional<std::string> fault_of(const FlagSpec& spec, FlagType type, std::string_view value);

// Sets the variable. Returns the reason if the words are not a value of its type.
std::optional<std::string> assign(const FlagTarget& target, FlagType type,
                                  const std::vector<std::string>& words);

// How a value is written in help and in error messages: N, X, TEXT.
std::string_view value_name(const FlagSpec& spec, FlagType type);

}  // namespace phalanx
