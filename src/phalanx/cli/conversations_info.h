#pragma once
// `phalanx dataset info --sft FILE`: what is in a file of conversations.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class ConversationsInfo {
 public:
  // --sft, the flags of pretrain that decide ids and masks, and those of the tokenizer.
  void add_to(FlagSet& flags);
  // UsageError where flags of conversations are given without --sft, or no tokenizer beside it.
  void check(const FlagSet& flags) const;
  bool is_wanted() const { return config_.data.sft; }
  // Errors as ConversationTokens::read() and ChosenConversations.
  nlohmann::ordered_json of(const std::string& file) const;

 private:
  TrainConfig config_;
  TokenizerFlags tokenizer_;
};

}  // namespace phalanx
