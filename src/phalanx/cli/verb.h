#pragma once
// The word after a command that has verbs: `dataset info`, `checkpoint diff`.

#include <span>
#include <string>
#include <string_view>

#include "phalanx/cli/commands.h"

namespace phalanx {

struct Verb {
  std::string_view name;
  std::string_view help;  // a line
};

// The first argument, which must be one of `verbs`. HelpRequested if it asks for help; UsageError
// that names the verbs if it is missing or another word.
std::string verb_of(std::string_view command, std::span<const Verb> verbs,
                    const Arguments& arguments);

}  // namespace phalanx
