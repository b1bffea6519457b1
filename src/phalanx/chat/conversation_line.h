#pragma once
// One line of a file of conversations.

#include <string_view>

#include "phalanx/chat/conversation.h"

namespace phalanx {

// The conversation of a line of JSON. Errors as ConversationReader::read(), without the place.
Conversation read_conversation(std::string_view line, bool takes_questions);

}  // namespace phalanx
