#pragma once
// The main() of a program that brings a model family of its own: like Megatron's pretrain() for a
// script, with further commands. examples/own-model is such a program.

#include <memory>

#include "phalanx/families/family.h"

namespace phalanx {

// What main() returns. The first word of the call is a command, the flags behind it are those of
// Phalanx's command and the family's own:
//   pretrain   trains; also where the first word is a flag
//   plan       the memory and the messages of that, nothing allocated
//   score      the log probability of each token of a text, where the model is a GptModel
//   generate   text from a checkpoint, likewise
//   help       the commands; of one, its flags
// Messages call the program by the name of its file.
int run_family_program(std::shared_ptr<const ModelFamily> family, int argc, char** argv);

}  // namespace phalanx
