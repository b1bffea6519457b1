#pragma once
// `generate --chat`: prompts that are conversations.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat/prompt_encoder.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

struct ChatOptions {
  bool is_on = false;
  std::string system;  // the first message; empty: none
  std::string template_file, arguments, date;
};

void add_chat_flags(FlagSet& flags, ChatOptions& options);

// With the first template that there is: --chat-template, the one that the checkpoint holds, the
// one beside its tokenizer. ConfigError where there is none.
PromptEncoder prompt_encoder(const ChatOptions& options, const TrainedModel& trained);

// What the user says, behind --system; ConfigError, naming `source`, where it is nothing.
std::vector<ChatMessage> conversation_of(const ChatOptions& options, const std::string& text,
                                         std::string_view source);
// A line of JSON, {"messages": [...]} or {"prompt": TEXT}, behind --system. Errors as
// ConversationReader::read(), and DataError for a conversation that leaves nothing to answer.
Conversation conversation_of_json(const ChatOptions& options, const std::string& line,
                                  const std::string& file, std::size_t line_number);

}  // namespace phalanx
