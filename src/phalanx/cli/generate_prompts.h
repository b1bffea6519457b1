#pragma once
// The prompts of `generate`, as texts or as conversations.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/generate.h"

namespace phalanx {

struct GeneratePrompt {
  std::string source;                      // its name in messages
  std::vector<ChatMessage> messages = {};  // of a conversation; else none
  std::string text = {};                   // of a conversation: as its template writes it
  std::vector<std::int32_t> ids = {};
  std::string arguments = {};     // Conversation::arguments
  std::vector<KeyUse> keys = {};  // of a conversation
};

struct GeneratePrompts {
  std::vector<GeneratePrompt> all;
  std::int32_t end_of_turn = -1;  // the token with which a template ends an answer; -1: none
};

// Those of the flags and of --prompts-file. ConfigError where one does not fit into the model.
GeneratePrompts read_prompts(const GenerateOptions& options, const TrainedModel& trained);

// PromptEncoder::end_of_turn(); a warning where there is none.
std::int32_t end_of_turn(const PromptEncoder& encoder);

}  // namespace phalanx
