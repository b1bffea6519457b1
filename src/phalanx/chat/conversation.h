#pragma once
// Conversations, one a line of JSON: {"messages": [{"role", "content"}]} and the other kinds that
// data sets for fine-tuning have.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/chat_template.h"

namespace phalanx {

// By the keys of a line, the first that match.
enum class ConversationKind {
  kMessages,       // messages: [{"role", "content"}]
  kConversations,  // conversations: [{"from", "value"}], ShareGPT's
  kCompletion,     // prompt and completion: two texts that are joined, or two lists of messages
  kInstruction,    // instruction (prompt, query, question), output (response, completion, answer),
                   // and maybe input (context)
  kText,           // text
};

struct Conversation {
  ConversationKind kind = ConversationKind::kMessages;
  std::vector<ChatMessage> messages = {};
  // Of kCompletion: how many messages are the prompt.
  std::size_t prompt_messages = 0;
  // Of kText and of kCompletion with two texts: no template writes it; the bytes before
  // `trained_from` are not trained.
  std::optional<std::string> text = {};
  std::size_t trained_from = 0;
  // The last message is not the assistant's (ConversationRules::takes_incomplete).
  bool is_incomplete = false;
};

struct ConversationRules {
  // What training needs: an answer that is not empty, and one at the end.
  bool needs_answer = true;
  // Of the latter: marks the conversation, instead of refusing it.
  bool takes_incomplete = false;
};

// Reads the lines of one file, which must all be of one kind.
class ConversationReader {
 public:
  explicit ConversationReader(std::string file, ConversationRules rules = {})
      : file_(std::move(file)), rules_(rules) {}

  // DataError, naming file, line and key, for what is no conversation; ConfigError for what this
  // program does not have: tools, contents that are lists.
  Conversation read(std::string_view line, std::size_t line_number);

 private:
  std::string file_;
  ConversationRules rules_;
  std::optional<ConversationKind> kind_;
};

}  // namespace phalanx
