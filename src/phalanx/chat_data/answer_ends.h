#pragma once
// Whether a model that learns from conversations learns to end its answers.

#include <string>

#include "phalanx/chat_data/chosen_conversations.h"
#include "phalanx/chat_data/conversation_tokens.h"

namespace phalanx {

// What to warn of where none of the trained tokens ends an answer; empty where one does. Reads
// conversations up to the first that has one.
std::string fault_of_answer_ends(const ChosenConversations& conversations,
                                 const Tokenizer& tokenizer, const ConversationOptions& options);

}  // namespace phalanx
