#pragma once
// The word after `pretrain` and `plan`: a model family.

#include <memory>
#include <string>
#include <string_view>

#include "phalanx/cli/commands.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

// The family that the first argument names, and the arguments after it. --help alone means GPT.
struct NamedFamily {
  std::string command;  // as it is typed: "phalanx plan gpt"
  std::shared_ptr<const ModelFamily> family;
  Arguments arguments;
  bool is_chat_tuning = false;  // a GPT, as `finetune chat` trains it
};
// UsageError if the name is missing or unknown.
NamedFamily named_family(std::string_view command, const Arguments& arguments);

// Sets the family of the configuration; it may be one that Phalanx does not have.
void use_family(const std::shared_ptr<const ModelFamily>& family, TrainConfig& config);

// Sets flags that are not given to the family's own defaults.
void use_family_defaults(FlagSet& flags, const ModelFamily& family);

}  // namespace phalanx
