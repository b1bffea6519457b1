#pragma once
// Rows of flags that set nothing: what they ask for is how Phalanx always does it, or they are
// refused. They have files of their own, one for each part of the configuration.

#include <span>
#include <string_view>

#include "phalanx/flag_table/train_flags.h"

namespace phalanx {

std::span<const TrainFlag> unbound_model_flags();
std::span<const TrainFlag> unbound_layout_flags();
std::span<const TrainFlag> unbound_data_flags();
std::span<const TrainFlag> unbound_optimizer_flags();
std::span<const TrainFlag> unbound_run_flags();
// Sections for flags of programs that Phalanx does not have.
std::span<const TrainFlag> unbound_program_flags();

// Why a flag is refused and what to use instead, as clauses that follow the flag and a colon.
// `planned`: what a plan says where it takes the flag.
struct Refusal {
  std::string_view reason;
  std::string_view planned = {};
};
inline constexpr std::string_view kSamePlan = "the plan does not depend on it";

// A feature that Phalanx does not have. A flag of it may be given with its default.
struct Absence {
  std::string_view unused;  // why the default changes nothing
  Refusal refusal;
};
inline constexpr Absence kRetriever = {
    "nothing depends on it without a retriever",
    {"retrievers are not trained by Phalanx; leave the flag out"}};

constexpr TrainFlag refused(std::string_view section, std::string_view name, FlagType type,
                            const Refusal& refusal) {
  return {.section = section,
          .spec = {.name = name,
                   .type = type,
                   .state = FlagState::kRefused,
                   .reason = refusal.reason,
                   .planned = refusal.planned}};
}

constexpr TrainFlag satisfied(std::string_view section, std::string_view name, FlagType type,
                              std::string_view reason) {
  return {.section = section,
          .spec = {.name = name, .type = type, .state = FlagState::kSatisfied, .reason = reason}};
}

// A flag on which no result depends. `instead`: a clause that says what to use for its purpose.
constexpr TrainFlag passed_over(std::string_view section, std::string_view name, FlagType type,
                                std::string_view reason, std::string_view instead = {}) {
  return {.section = section,
          .spec = {.name = name,
                   .type = type,
                   .state = FlagState::kPassedOver,
                   .reason = reason,
                   .instead = instead}};
}
constexpr TrainFlag with_choices(std::string_view choices, TrainFlag row) {
  row.spec.choices = choices;
  return row;
}

// A flag that is satisfied for these values only (words separated by blanks, in canonical form).
constexpr TrainFlag satisfied_by(std::string_view values, std::string_view section,
                                 std::string_view name, FlagType type, std::string_view reason,
                                 const Refusal& otherwise) {
  TrainFlag row = satisfied(section, name, type, reason);
  row.spec.satisfied_by = values;
  row.spec.otherwise = otherwise.reason;
  row.spec.planned = otherwise.planned;
  return row;
}

// A flag of a feature that Phalanx does not have: only the default is accepted.
constexpr TrainFlag only_default(std::string_view value, std::string_view section,
                                 std::string_view name, FlagType type, const Absence& absence) {
  return satisfied_by(value, section, name, type, absence.unused, absence.refusal);
}

constexpr TrainFlag with_range(const FlagRange& range, TrainFlag row) {
  row.spec.range = range;
  return row;
}

// Adds other spellings, or keys of YAML files, to a row.
constexpr TrainFlag with_aliases(std::string_view aliases, TrainFlag row) {
  row.spec.aliases = aliases;
  return row;
}
constexpr TrainFlag with_old_names(std::string_view names, TrainFlag row) {
  row.spec.old_names = names;
  return row;
}
constexpr TrainFlag with_yaml_keys(std::string_view keys, TrainFlag row) {
  row.spec.yaml_keys = keys;
  return row;
}

}  // namespace phalanx
