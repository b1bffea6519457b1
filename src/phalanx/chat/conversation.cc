#include "phalanx/chat/conversation.h"

#include <array>

#include "phalanx/base/error.h"
#include "phalanx/chat/conversation_line.h"

namespace phalanx {
namespace {

std::string_view name_of(ConversationKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {
      "messages", "conversations", "prompt and completion", "instruction and output", "text"};
  return kNames[static_cast<std::size_t>(kind)];
}

void check_answers(const ConversationRules& rules, Conversation& conversation) {
  const auto& messages = conversation.messages;
  bool has_answer = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    has_answer = true;
    if (messages[i].content.empty()) {
      throw DataError("message {}: the assistant's text is empty", i + 1);
    }
  }
  conversation.is_incomplete = messages.empty() || messages.back().role != "assistant";
  if (!conversation.is_incomplete || rules.takes_incomplete) return;
  if (!has_answer) throw DataError("no message is an assistant's");
  throw DataError("the last message is not an assistant's; --sft-drop-incomplete leaves such out");
}

}  // namespace

Conversation ConversationReader::read(std::string_view line, std::size_t line_number) {
  try {
    Conversation conversation = read_conversation(line, rules_.takes_questions);
    if (kind_ && *kind_ != conversation.kind) {
      throw DataError("it has {}, and the lines before have {}", name_of(conversation.kind),
                      name_of(*kind_));
    }
    kind_ = conversation.kind;
    if (rules_.needs_answer && !conversation.text) check_answers(rules_, conversation);
    return conversation;
  } catch (const DataError& error) {
    throw DataError("{}:{}: {}", file_, line_number, error.what());
  } catch (const ConfigError& error) {
    throw ConfigError("{}:{}: {}", file_, line_number, error.what());
  }
}

}  // namespace phalanx
