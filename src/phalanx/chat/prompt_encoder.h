#pragma once
// Conversations as prompts: their tokens up to where an answer begins, and the tokens that end it.
// Special tokens come from the template alone. What stands in a message stays text, also where it
// is written like a special token.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat/chat_encoder.h"

namespace phalanx {

struct ChatPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  // As EncodedChat::keys, of what the template is given.
  std::vector<KeyUse> keys = {};
};

// Not for several threads at once, as TokenPlaces.
class PromptEncoder {
 public:
  // `tokenizer` must live as long. Of the settings `loss` is not read.
  PromptEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template, ChatSettings settings);

  // The messages and the beginning of an answer. `arguments` are Conversation::arguments. Errors as
  // ChatTemplate::render; DataError, with the text, where a message has the text of a special token
  // and the template or the tokenizer does not let see which part of the prompt is the message's.
  ChatPrompt encode(const std::vector<ChatMessage>& messages, const std::string& arguments = {});

  // As the function of this name.
  std::int32_t end_of_turn() const;

 private:
  // Where the text of a special token is in a message, or may be half in it.
  struct Marks {
    std::vector<std::size_t> places;  // bytes of the content, ascending
    std::string_view written;         // one such text
  };

  RenderedChat rendered(std::vector<ChatMessage> messages, const std::string& arguments,
                        bool add_generation_prompt) const;
  Marks marks_of(std::string_view content) const;
  std::vector<std::int32_t> encode_marked(const std::string& marked, char mark,
                                          std::string_view written);

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  ChatSettings settings_;
  TokenPlaces places_;
  SpecialTexts special_;
};

}  // namespace phalanx
