#pragma once
// The table of the training flags: Megatron's, and Phalanx's own. Each has a row that says what
// becomes of it; a row that works names the member of the configuration that it sets.

#include <span>
#include <string_view>
#include <vector>

#include "phalanx/flags/flag_set.h"
#include "phalanx/train/config.h"

namespace phalanx {

struct TrainFlag {
  std::string_view section;  // its heading in --help
  FlagSpec spec;
  // Of a flag that works: the member it sets, and that member's name.
  FlagTarget (*target)(TrainConfig&) = nullptr;
  std::string_view member = {};
};

// One table for each part of the configuration.
std::span<const TrainFlag> model_flags();
std::span<const TrainFlag> layout_flags();
std::span<const TrainFlag> data_flags();
std::span<const TrainFlag> optimizer_flags();
std::span<const TrainFlag> run_flags();
// All of them, in the order of --help.
std::vector<TrainFlag> train_flags();

void add_train_flags(FlagSet& flags, TrainConfig& config);

}  // namespace phalanx
