#pragma once
// The table of the training flags: Megatron's, and Phalanx's own. Each has a row that says what
// becomes of it; a row that works names the member of the configuration that it sets.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

struct TrainFlag {
  std::string_view section;  // its heading in --help
  FlagSpec spec;
  // Of a flag that works: the member it sets, and that member's name.
  FlagTarget (*target)(TrainConfig&) = nullptr;
  std::string_view member = {};
  // Model families that it belongs to, words between blanks; all of them where empty.
  std::string_view families = {};
};

// One table for each part of the configuration.
std::span<const TrainFlag> model_flags();
// Of the model too: what its layers are made of.
std::span<const TrainFlag> layer_flags();
std::span<const TrainFlag> layout_flags();
std::span<const TrainFlag> data_flags();
std::span<const TrainFlag> tokenizer_flags();
std::span<const TrainFlag> optimizer_flags();
std::span<const TrainFlag> run_flags();
// All of them, in the order of --help.
const std::vector<TrainFlag>& train_flags();
// Whether it says what the model is: its shape, its numerics, its tokenizer's size. With
// --use-checkpoint-args the checkpoint's value stands in for one that is not given.
bool describes_model(const TrainFlag& flag);
// Whether it says what makes ids of text.
bool describes_tokenizer(const TrainFlag& flag);
// Whether it belongs to the model family of this name.
bool is_of_family(const TrainFlag& flag, std::string_view family);
// By any of its names, or null.
const TrainFlag* find_train_flag(std::string_view name);

// Every flag that works with the configuration's value as text: what a checkpoint keeps of it.
std::vector<std::pair<std::string, std::string>> argument_values(const TrainConfig& config);

void add_train_flags(FlagSet& flags, TrainConfig& config);

}  // namespace phalanx
