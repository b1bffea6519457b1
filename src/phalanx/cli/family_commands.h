#pragma once
// Commands for the families of Phalanx, and for those of programs that bring their own.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

int pretrain(CommandIo& io, const NamedFamily& named);
int plan(CommandIo& io, const NamedFamily& named);

// Reads a call of `pretrain` into `config`, to which the flags are bound then. Throws as
// FlagSet::parse().
std::unique_ptr<FlagSet> training_flags(const NamedFamily& named, TrainConfig& config);

// A command that uses the model of a checkpoint.
struct ModelCommand {
  std::string name;                                     // as it is typed: "phalanx score"
  std::shared_ptr<const ModelFamily> family = nullptr;  // the program's own; null: Phalanx's
};
// What `score` reads instead of its input and of --tokens: texts of any characters, or token ids. A
// document for each.
struct ScoredTexts {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int32_t>> tokens;
};
int score(CommandIo& io, const ModelCommand& command, const Arguments& arguments,
          const ScoredTexts* given = nullptr);
int generate(CommandIo& io, const ModelCommand& command, const Arguments& arguments);

}  // namespace phalanx
