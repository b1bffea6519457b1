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
                   // and maybe input (context), history: [[question, answer]]
  kText,           // text
};

// Whether a message asks to be trained, and with which key.
struct TrainingWish {
  std::size_t message = 0;  // from 0 on
  bool is_trained = true;
  std::string key = {};
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
  // The wishes of the messages that have one, in their order.
  std::vector<TrainingWish> wishes = {};
  // The line says that nothing of it is trained.
  bool is_untrained = false;
  // chat_template_kwargs, variables for the template: a JSON object; empty: none.
  std::string arguments = {};
  // Keys of the line that have something in them and decide nothing.
  std::vector<std::string> unused_keys = {};
};

struct ConversationRules {
  // What training needs: an answer that is not empty, and one at the end.
  bool needs_answer = true;
  // Of the latter: marks the conversation, instead of refusing it.
  bool takes_incomplete = false;
  // A text "prompt" is what a user says, and no answer is read.
  bool takes_questions = false;
};

// Reads the lines of one file, which must all be of one kind.
class ConversationReader {
 public:
  explicit ConversationReader(std::string file, ConversationRules rules = {})
      : file_(std::move(file)), rules_(rules) {}

  // DataError, naming file, line and key, for what is no conversation or says two things;
  // ConfigError for what this program does not have: tools, contents that are lists, preferences,
  // shares of a loss.
  Conversation read(std::string_view line, std::size_t line_number);

 private:
  std::string file_;
  ConversationRules rules_;
  std::optional<ConversationKind> kind_;
};

}  // namespace phalanx
