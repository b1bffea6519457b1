#include "phalanx/chat/end_of_turn.h"

#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/chat/special_texts.h"

namespace phalanx {

std::int32_t end_of_turn(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                         const ChatSettings& settings) {
  constexpr std::string_view kAnswer = "Quokka";
  std::string text;
  try {
    text =
        chat_template
            .render({.messages = {{"user", "Which animal?"}, {"assistant", std::string(kAnswer)}},
                     .special_tokens = settings.special_tokens,
                     .arguments = settings.arguments,
                     .date = settings.date})
            .text;
  } catch (const DataError&) {
    return -1;
  }
  const std::size_t found = text.rfind(kAnswer);
  if (found == std::string::npos) return -1;
  const std::size_t behind = text.find_first_not_of(kTrimmedBlanks, found + kAnswer.size());
  if (behind == std::string::npos) return -1;
  const auto ids = tokenizer.encode(text.substr(behind), {.parse_special = true});
  return !ids.empty() && is_special_token(tokenizer, ids.front()) ? ids.front() : -1;
}

}  // namespace phalanx
