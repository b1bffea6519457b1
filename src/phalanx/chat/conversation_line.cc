#include "phalanx/chat/conversation_line.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/chat/message_keys.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

struct Name {
  std::string_view written;
  std::string_view role;
};
constexpr auto kSpeakers = std::to_array<Name>({{"human", "user"},
                                                {"user", "user"},
                                                {"gpt", "assistant"},
                                                {"assistant", "assistant"},
                                                {"model", "assistant"},
                                                {"chatgpt", "assistant"},
                                                {"bing", "assistant"},
                                                {"bard", "assistant"},
                                                {"system", "system"},
                                                {"tool", "tool"},
                                                {"function", "tool"},
                                                {"observation", "tool"}});
constexpr auto kRoles = std::to_array<Name>({{"system", "system"},
                                             {"developer", "developer"},
                                             {"user", "user"},
                                             {"assistant", "assistant"},
                                             {"tool", "tool"}});
// Variables that the program sets itself: a line may not set them.
constexpr auto kOwnVariables =
    std::to_array<std::string_view>({"messages", "tools", "documents", "add_generation_prompt"});

constexpr std::string_view kRole = "role";
constexpr std::string_view kContent = "content";
constexpr std::string_view kFrom = "from";
constexpr std::string_view kValue = "value";
constexpr std::string_view kArguments = "chat_template_kwargs";

bool has_member(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

std::string text_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("\"{}\" is missing", key);
  if (!found->is_string()) throw ConfigError("\"{}\" is no text, which is not supported", key);
  return found->get<std::string>();
}

// Either pair of keys, whatever the list is called.
ChatMessage message_of(const Json& json, std::string_view preferred_role_key) {
  if (!json.is_object()) throw DataError("a message is no JSON object");
  const std::string_view other_role_key = preferred_role_key == kRole ? kFrom : kRole;
  const bool is_other = !has_member(json, preferred_role_key) && has_member(json, other_role_key);
  const std::string_view role_key = is_other ? other_role_key : preferred_role_key;
  const bool is_share_gpt = role_key == kFrom;
  const std::string_view content_key = is_share_gpt ? kValue : kContent;

  const std::string role = text_of(json, role_key);
  const std::span<const Name> names =
      is_share_gpt ? std::span<const Name>(kSpeakers) : std::span<const Name>(kRoles);
  const auto found = std::ranges::find(names, std::string_view(role), &Name::written);
  if (found == names.end()) throw DataError("\"{}\": unknown is '{}'", role_key, role);
  if (found->role == "tool") {
    throw ConfigError("\"{}\" is '{}': messages of tools are not supported", role_key, role);
  }
  ChatMessage message{.role = std::string(found->role),
                      .content = {},
                      .fields = fields_of(json, role_key, content_key)};
  message.content = text_of(json, content_key);
  if (is_share_gpt) {
    const auto compare = [&](std::string_view key, const std::string& said) {
      if (has_member(json, key) && json[key] != said) {
        throw DataError("a message has \"{}\" beside \"{}\", and they differ", key,
                        key == kRole ? kFrom : kValue);
      }
    };
    compare(kRole, message.role);
    compare(kContent, message.content);
  }
  return message;
}

// Every key that is looked at counts as used.
class ConversationLine {
 public:
  explicit ConversationLine(std::string_view line) : json_(Json::parse(line, nullptr, false)) {
    if (!json_.is_object()) throw DataError("it is no JSON object");
  }

  Conversation read(bool takes_questions);

 private:
  Conversation of_its_kind(bool takes_questions);
  Conversation of_messages(ConversationKind kind, std::string_view key);
  Conversation of_completion();
  Conversation of_instruction(std::string_view instruction, std::string_view output);
  void add_messages(std::string_view key, std::string_view role_key, Conversation& to);
  void add_history(Conversation& to);
  void add_system(Conversation& to);
  void add_arguments(Conversation& to);
  void refuse_tools();

  bool has(std::string_view key) const { return has_member(json_, key); }
  std::string_view first_of(std::initializer_list<std::string_view> keys) const;
  // Null where there is none.
  const Json& take(std::string_view key);
  std::string take_text(std::string_view key);
  std::vector<std::string> unused() const;

  Json json_;
  std::vector<std::string_view> used_;
};

Conversation ConversationLine::read(bool takes_questions) {
  refuse_tools();
  Conversation whole = of_its_kind(takes_questions);
  if (!whole.text) {
    add_system(whole);
    add_arguments(whole);
  }
  if (const auto wish = training_wish(json_, /*of_line=*/true)) {
    whole.is_untrained = !wish->is_trained;
  }
  whole.unused_keys = unused();
  return whole;
}

Conversation ConversationLine::of_its_kind(bool takes_questions) {
  if (has("messages")) return of_messages(ConversationKind::kMessages, "messages");
  if (takes_questions && has("prompt") && json_["prompt"].is_string()) {
    return of_instruction("prompt", {});
  }
  if (has("conversations")) return of_messages(ConversationKind::kConversations, "conversations");
  if (has("prompt") && has("completion")) return of_completion();
  const std::string_view instruction = first_of({"instruction", "prompt", "query", "question"});
  const std::string_view output = first_of({"output", "response", "completion", "answer"});
  if (!instruction.empty() && !output.empty()) return of_instruction(instruction, output);
  if (has("text")) {
    Conversation whole{.kind = ConversationKind::kText};
    whole.text = take_text("text");
    return whole;
  }
  if (has("chosen") || has("rejected")) {
    throw ConfigError(
        "\"chosen\" and \"rejected\": preferences are not trained; give what was chosen as "
        "\"messages\"");
  }
  throw DataError(
      "it has none of the keys messages, conversations, prompt with completion, instruction "
      "with output, text");
}

void ConversationLine::refuse_tools() {
  for (const std::string_view key : {"tools", "functions"}) {
    if (!is_nothing(take(key))) throw ConfigError("\"{}\" is not supported", key);
  }
}

std::string_view ConversationLine::first_of(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (has(key)) return key;
  }
  return {};
}

const Json& ConversationLine::take(std::string_view key) {
  static const Json none;
  used_.push_back(key);
  const auto found = json_.find(key);
  return found == json_.end() ? none : *found;
}

std::string ConversationLine::take_text(std::string_view key) {
  used_.push_back(key);
  return text_of(json_, key);
}

void ConversationLine::add_messages(std::string_view key, std::string_view role_key,
                                    Conversation& to) {
  const Json& list = take(key);
  if (!list.is_array()) throw DataError("\"{}\" is no list", key);
  for (const Json& json : list) {
    to.messages.push_back(message_of(json, role_key));
    const std::size_t number = to.messages.size();
    try {
      if (auto wish = training_wish(json, /*of_line=*/false)) {
        wish->message = number - 1;
        to.wishes.push_back(std::move(*wish));
      }
    } catch (const ConfigError& error) {
      throw ConfigError("message {}: {}", number, error.what());
    }
  }
}

Conversation ConversationLine::of_messages(ConversationKind kind, std::string_view key) {
  Conversation whole{.kind = kind};
  add_messages(key, kind == ConversationKind::kConversations ? kFrom : kRole, whole);
  return whole;
}

Conversation ConversationLine::of_completion() {
  Conversation whole{.kind = ConversationKind::kCompletion};
  if (json_["prompt"].is_array() != json_["completion"].is_array()) {
    throw DataError("\"prompt\" and \"completion\" are two texts or two lists of messages");
  }
  if (!json_["prompt"].is_array()) {
    const std::string prompt = take_text("prompt");
    whole.text = prompt + take_text("completion");
    whole.trained_from = prompt.size();
    return whole;
  }
  add_messages("prompt", kRole, whole);
  whole.prompt_messages = whole.messages.size();
  add_messages("completion", kRole, whole);
  return whole;
}

Conversation ConversationLine::of_instruction(std::string_view instruction,
                                              std::string_view output) {
  Conversation whole{.kind = ConversationKind::kInstruction};
  add_history(whole);
  std::string question = take_text(instruction);
  if (const std::string_view key = first_of({"input", "context"});
      !key.empty() && !output.empty()) {
    const std::string context = take_text(key);
    if (!context.empty()) question += "\n\n" + context;
  }
  whole.messages.push_back({"user", std::move(question)});
  if (!output.empty()) whole.messages.push_back({"assistant", take_text(output)});
  return whole;
}

void ConversationLine::add_history(Conversation& to) {
  const Json& history = take("history");
  if (is_nothing(history)) return;
  const auto is_turn = [](const Json& turn) {
    return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
  };
  if (!history.is_array() || !std::ranges::all_of(history, is_turn)) {
    throw DataError("\"history\" is no list of pairs of texts, a question and an answer");
  }
  for (const Json& turn : history) {
    to.messages.push_back({"user", turn[0].get<std::string>()});
    to.messages.push_back({"assistant", turn[1].get<std::string>()});
  }
}

void ConversationLine::add_system(Conversation& to) {
  if (is_nothing(take("system"))) return;
  const std::string said = take_text("system");
  if (!to.messages.empty() && to.messages.front().role == "system") {
    if (to.messages.front().content == said) return;
    throw DataError("\"system\" and the first message, which is a system's too, differ");
  }
  to.messages.insert(to.messages.begin(), {"system", said});
  if (to.kind == ConversationKind::kCompletion) ++to.prompt_messages;
  for (TrainingWish& wish : to.wishes) ++wish.message;
}

void ConversationLine::add_arguments(Conversation& to) {
  const Json& arguments = take(kArguments);
  if (is_nothing(arguments)) return;
  if (!arguments.is_object()) throw DataError("\"{}\" is no JSON object", kArguments);
  for (const std::string_view name : kOwnVariables) {
    if (!arguments.contains(name)) continue;
    throw ConfigError("\"{}\": \"{}\" cannot be set", kArguments, name);
  }
  to.arguments = object_text(arguments);
}

std::vector<std::string> ConversationLine::unused() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_.items()) {
    const bool is_used = std::ranges::find(used_, std::string_view(key)) != used_.end() ||
                         says_what_is_trained(key, /*of_line=*/true);
    if (!is_used && !is_nothing(value)) keys.push_back(key);
  }
  return keys;
}

}  // namespace

Conversation read_conversation(std::string_view line, bool takes_questions) {
  return ConversationLine(line).read(takes_questions);
}

}  // namespace phalanx
