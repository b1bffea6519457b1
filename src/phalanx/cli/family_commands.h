#pragma once
// Commands for the families of Phalanx, and for those of programs that bring their own.

#include <memory>
#include <string>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/families/family.h"

namespace phalanx {

int pretrain(const NamedFamily& named);
int plan(const NamedFamily& named);

// A command that uses the model of a checkpoint.
struct ModelCommand {
  std::string name;                                     // as it is typed: "phalanx score"
  std::shared_ptr<const ModelFamily> family = nullptr;  // the program's own; null: Phalanx's
};
int score(const ModelCommand& command, const Arguments& arguments);
int generate(const ModelCommand& command, const Arguments& arguments);

}  // namespace phalanx
