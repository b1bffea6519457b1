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
  // For a flag that works: the member that it sets, and the member's name.
  FlagTarget (*target)(TrainConfig&) = nullptr;
  std::string_view member = {};
  // The model families that have it, separated by blanks; empty: all.
  std::string_view families = {};
};

// One table for each part of the configuration.
std::span<const TrainFlag> model_flags();
// More flags of the model: what its layers are made of.
std::span<const TrainFlag> layer_flags();
std::span<const TrainFlag> expert_flags();
// Low-rank adapters.
std::span<const TrainFlag> lora_flags();
std::span<const TrainFlag> layout_flags();
std::span<const TrainFlag> data_flags();
std::span<const TrainFlag> tokenizer_flags();
std::span<const TrainFlag> chat_flags();
std::span<const TrainFlag> optimizer_flags();
std::span<const TrainFlag> run_flags();
// All of them, in the order of --help.
const std::vector<TrainFlag>& train_flags();
// Whether the flag describes the model: its shape, its numerics, its tokenizer's size. With
// --use-checkpoint-args such a flag has the checkpoint's value if it is not given.
bool describes_model(const TrainFlag& flag);
// Whether the flag describes the tokenizer.
bool describes_tokenizer(const TrainFlag& flag);
// Whether the model family of this name has the flag.
bool is_of_family(const TrainFlag& flag, std::string_view family);
// Finds a flag by any of its names; null: there is none.
const TrainFlag* find_train_flag(std::string_view name);

// Every flag that works, with its value in `config` as text: what a checkpoint keeps.
std::vector<std::pair<std::string, std::string>> argument_values(const TrainConfig& config);

void add_train_flags(FlagSet& flags, TrainConfig& config);

}  // namespace phalanx
