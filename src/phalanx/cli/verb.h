#pragma once
// The word behind a command that is several: `dataset info`, `checkpoint diff`.

#include <span>
#include <string>
#include <string_view>

#include "phalanx/cli/commands.h"

namespace phalanx {

struct Verb {
  std::string_view name;
  std::string_view help;  // a line
};

// The first argument, which must be one of `verbs`. HelpRequested where it asks for help;
// UsageError that names the verbs where it is none of them or missing.
std::string verb_of(std::string_view command, std::span<const Verb> verbs,
                    const Arguments& arguments);

}  // namespace phalanx
