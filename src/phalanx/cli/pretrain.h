#pragma once
// `phalanx pretrain` for a program that brings a model family of its own: what Megatron's
// pretrain() is to a script. examples/own-model is such a program.

#include <memory>

#include "phalanx/cli/commands.h"
#include "phalanx/train/family.h"

namespace phalanx {

// Trains a model of the family with these flags: those of `phalanx pretrain` and the family's own.
// Returns the exit status; errors are thrown.
int pretrain_family(std::shared_ptr<const ModelFamily> family, const Arguments& arguments);

}  // namespace phalanx
