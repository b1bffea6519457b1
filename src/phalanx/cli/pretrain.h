#pragma once
// `phalanx pretrain` for a program that trains a model family of its own and does nothing else.
// family_program.h makes a program with all commands.

#include <memory>

#include "phalanx/cli/commands.h"
#include "phalanx/families/family.h"

namespace phalanx {

// Trains a model of the family, in a process of its own, with these flags: those of `phalanx
// pretrain` and the family's own. Messages call the program by the name of its file. Returns the
// exit status; errors are thrown.
int pretrain_family(std::shared_ptr<const ModelFamily> family, const Arguments& arguments);

}  // namespace phalanx
