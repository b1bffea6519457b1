#pragma once
// The word behind `pretrain` and `plan`.

#include <memory>
#include <string>
#include <string_view>

#include "phalanx/cli/commands.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

// The family that the first argument names, and the arguments behind it. Of --help alone: a GPT.
struct NamedFamily {
  std::string command;  // as it is typed: "phalanx plan gpt"
  std::shared_ptr<const ModelFamily> family;
  Arguments arguments;
};
// UsageError where the name is missing or no family's.
NamedFamily named_family(std::string_view command, const Arguments& arguments);

// The configuration is of the family, also of one that Phalanx does not have.
void use_family(const std::shared_ptr<const ModelFamily>& family, TrainConfig& config);

// What stands instead of the flags' defaults in the family, where they are not given.
void use_family_defaults(FlagSet& flags, const ModelFamily& family);

}  // namespace phalanx
