#pragma once
// The word behind `pretrain` and `plan`.

#include <string_view>

#include "phalanx/cli/commands.h"

namespace phalanx {

// The arguments behind the model's name; UsageError where it is missing or not a model of this
// version.
Arguments behind_model_name(std::string_view command, const Arguments& arguments);

}  // namespace phalanx
