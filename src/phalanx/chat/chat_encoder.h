#pragma once
// Conversations to token ids, with a mask of the tokens that are trained.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/chat/conversation.h"
#include "phalanx/chat/special_texts.h"
#include "phalanx/chat_template/chat_template.h"
#include "phalanx/tokenizer/token_places.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// What is trained.
enum class ChatLoss {
  kAssistant,   // what the assistant says
  kLast,        // what it says last
  kAll,         // everything
  kCompletion,  // what is not the prompt; of lines with prompt and completion
};

struct ChatSettings {
  std::vector<std::pair<std::string, std::string>> special_tokens = {};
  std::string arguments = {};  // a JSON object
  std::optional<std::chrono::year_month_day> date = {};
  ChatLoss loss = ChatLoss::kAssistant;
};

struct EncodedChat {
  std::string text;
  std::vector<std::int32_t> ids;
  // 1 for a token that is trained. Absent where the template does not show what the assistant says;
  // `why` tells.
  std::optional<std::vector<std::uint8_t>> mask;
  std::string why;
  // The keys that stand beside what is written, and whether they change anything, by names for
  // KeyUses.
  std::vector<KeyUse> keys = {};
};

// Not for several threads at once, as TokenPlaces; a copy is quickly made.
class ChatEncoder {
 public:
  // `tokenizer` must live as long.
  ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template, ChatSettings settings)
      : tokenizer_(tokenizer),
        template_(std::move(chat_template)),
        settings_(std::move(settings)),
        places_(tokenizer) {}

  // Special tokens in the text are parsed, none is added. Errors as ChatTemplate::render.
  EncodedChat encode(const Conversation& conversation, bool add_generation_prompt = false);

  // Where the conversation has the text of a special token in it first, which would become that
  // token: "message 2", "message 2: \"name\"". `special` are the tokenizer's.
  std::optional<std::string> place_of_special_token(const Conversation& conversation,
                                                    const SpecialTexts& special) const;

 private:
  // The first `count` messages.
  RenderedChat rendered(const Conversation& conversation, std::size_t count,
                        bool add_generation_prompt, bool watches_keys = false) const;
  // The spans of the whole text that are trained; or why they are not known.
  std::vector<TextSpan> trained(const Conversation& conversation, const RenderedChat& whole,
                                std::string& why) const;
  std::vector<TextSpan> by_prefixes(const Conversation& conversation, const std::string& whole,
                                    std::size_t first_answer, std::string& why) const;
  std::vector<TextSpan> by_marks(const Conversation& conversation, const RenderedChat& whole,
                                 std::size_t first_answer, std::string& why) const;
  std::vector<KeyUse> keys_of(const Conversation& conversation, const RenderedChat& whole) const;

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  ChatSettings settings_;
  TokenPlaces places_;
};

// A token is trained if any of its bytes is in a span. Both in order.
std::vector<std::uint8_t> mask_of(const std::vector<TokenPlace>& places,
                                  const std::vector<TextSpan>& spans);

}  // namespace phalanx
