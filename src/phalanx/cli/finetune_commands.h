#pragma once
// The verbs of `phalanx finetune`: they take the words after these.

#include "phalanx/cli/commands.h"

namespace phalanx {

int finetune_chat(CommandIo& io, const Arguments& arguments);

}  // namespace phalanx
