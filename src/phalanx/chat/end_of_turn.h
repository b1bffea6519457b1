#pragma once
// The token with which a chat template ends an answer.

#include <cstdint>

#include "phalanx/chat/chat_encoder.h"

namespace phalanx {

// The special token that the template writes behind an answer; -1 where it writes none, or does not
// take a conversation of a question and an answer. Of the settings `loss` is not read.
std::int32_t end_of_turn(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                         const ChatSettings& settings);

}  // namespace phalanx
