#pragma once
// Binds a row of the table to a member of the configuration.

#include "phalanx/flag_table/train_flags.h"

namespace phalanx {

constexpr ModelConfig& part_of(TrainConfig& c, ModelConfig*) { return c.model; }
constexpr ExpertConfig& part_of(TrainConfig& c, ExpertConfig*) { return c.experts; }
constexpr LoraConfig& part_of(TrainConfig& c, LoraConfig*) { return c.lora; }
constexpr LayoutConfig& part_of(TrainConfig& c, LayoutConfig*) { return c.layout; }
constexpr DataConfig& part_of(TrainConfig& c, DataConfig*) { return c.data; }
constexpr TokenizerOptions& part_of(TrainConfig& c, TokenizerOptions*) { return c.tokenizer; }
constexpr OptimizerConfig& part_of(TrainConfig& c, OptimizerConfig*) { return c.optimizer; }
constexpr RunConfig& part_of(TrainConfig& c, RunConfig*) { return c.run; }

template <typename Part, typename Value>
Part* part_with(Value Part::*);

// "num_layers" of &ModelConfig::num_layers, as the compiler spells it.
template <auto kMember>
constexpr std::string_view member_name() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin = function.find("kMember = ");
  const std::size_t end = function.find_first_of(";]", begin);
  const std::string_view member = function.substr(begin, end - begin);
  return member.substr(member.rfind(':') + 1);
}

// The row of a flag that sets the member; `spec` has the other fields of the flag.
template <auto kMember>
constexpr TrainFlag works(std::string_view section, std::string_view name, std::string_view help,
                          FlagSpec spec = {}) {
  using Part = decltype(part_with(kMember));
  spec.name = name;
  spec.help = help;
  return {.section = section,
          .spec = spec,
          .target = [](TrainConfig& config) -> FlagTarget {
            return &(part_of(config, Part{nullptr}).*kMember);
          },
          .member = member_name<kMember>()};
}

// The row of a flag that only some model families have.
constexpr TrainFlag of_families(std::string_view families, TrainFlag row) {
  row.families = families;
  return row;
}

// The largest value of a count that some code keeps in 32 bits.
inline constexpr double kMostInt32 = 2147483647.0;
// The largest integer up to which every integer is a different double.
inline constexpr double kMostExact = 9007199254740992.0;

}  // namespace phalanx
