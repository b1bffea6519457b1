#include "phalanx/chat/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

namespace phalanx {
namespace {

using Json = nlohmann::json;

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

std::string_view name_of(ConversationKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {
      "messages", "conversations", "prompt and completion", "instruction and output", "text"};
  return kNames[static_cast<std::size_t>(kind)];
}

// One line.
class Line {
 public:
  Line(std::string place, std::string_view line)
      : place_(std::move(place)), json_(Json::parse(line, nullptr, false)) {
    if (!json_.is_object()) reject("it is no JSON object");
  }

  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError("{}: {}", place_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError("{}: {}", place_, fmt::format(format, std::forward<Args>(args)...));
  }

  Conversation read() const {
    if (has("tools")) refuse("\"tools\" is not supported");
    if (has("messages")) return of_messages(ConversationKind::kMessages, "messages");
    if (has("conversations")) return of_messages(ConversationKind::kConversations, "conversations");
    if (has("prompt") && has("completion")) return of_completion();
    const std::string_view instruction = first_of({"instruction", "prompt", "query", "question"});
    const std::string_view output = first_of({"output", "response", "completion", "answer"});
    if (!instruction.empty() && !output.empty()) return of_instruction(instruction, output);
    if (has("text")) {
      Conversation whole{.kind = ConversationKind::kText};
      whole.text = text(json_, "text");
      return whole;
    }
    reject(
        "it has none of the keys messages, conversations, prompt with completion, instruction "
        "with output, text");
  }

 private:
  bool has(std::string_view key) const {
    const auto found = json_.find(std::string(key));
    return found != json_.end() && !found->is_null();
  }
  std::string_view first_of(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      if (has(key)) return key;
    }
    return {};
  }

  std::string text(const Json& object, std::string_view key) const {
    const auto found = object.find(std::string(key));
    if (found == object.end()) reject("\"{}\" is missing", key);
    if (!found->is_string()) refuse("\"{}\" is no text, which is not supported", key);
    return found->get<std::string>();
  }

  ChatMessage message(const Json& json, bool of_share_gpt) const {
    if (!json.is_object()) reject("a message is no JSON object");
    const std::string_view role_key = of_share_gpt ? "from" : "role";
    const std::string role = text(json, role_key);
    const std::span<const Name> names =
        of_share_gpt ? std::span<const Name>(kSpeakers) : std::span<const Name>(kRoles);
    const auto found = std::ranges::find(names, std::string_view(role), &Name::written);
    if (found == names.end()) reject("\"{}\": unknown is '{}'", role_key, role);
    if (found->role == "tool") {
      refuse("\"{}\" is '{}': messages of tools are not supported", role_key, role);
    }
    if (const auto calls = json.find("tool_calls"); calls != json.end() && !calls->is_null()) {
      refuse("\"tool_calls\" is not supported");
    }
    return {std::string(found->role), text(json, of_share_gpt ? "value" : "content")};
  }

  std::vector<ChatMessage> messages(std::string_view key, bool of_share_gpt) const {
    const Json& list = json_.at(std::string(key));
    if (!list.is_array()) reject("\"{}\" is no list", key);
    std::vector<ChatMessage> all;
    for (const Json& json : list) all.push_back(message(json, of_share_gpt));
    return all;
  }

  Conversation of_messages(ConversationKind kind, std::string_view key) const {
    return {.kind = kind, .messages = messages(key, kind == ConversationKind::kConversations)};
  }

  Conversation of_completion() const {
    Conversation whole{.kind = ConversationKind::kCompletion};
    if (json_["prompt"].is_array() != json_["completion"].is_array()) {
      reject("\"prompt\" and \"completion\" are two texts or two lists of messages");
    }
    if (!json_["prompt"].is_array()) {
      const std::string prompt = text(json_, "prompt");
      whole.text = prompt + text(json_, "completion");
      whole.trained_from = prompt.size();
      return whole;
    }
    whole.messages = messages("prompt", false);
    whole.prompt_messages = whole.messages.size();
    std::ranges::move(messages("completion", false), std::back_inserter(whole.messages));
    return whole;
  }

  Conversation of_instruction(std::string_view instruction, std::string_view output) const {
    std::string question = text(json_, instruction);
    if (const std::string_view key = first_of({"input", "context"}); !key.empty()) {
      const std::string context = text(json_, key);
      if (!context.empty()) question += "\n\n" + context;
    }
    return {.kind = ConversationKind::kInstruction,
            .messages = {{"user", std::move(question)}, {"assistant", text(json_, output)}}};
  }

  std::string place_;
  Json json_;
};

void check_answers(const Line& line, const ConversationRules& rules, Conversation& conversation) {
  const auto& messages = conversation.messages;
  bool has_answer = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    has_answer = true;
    if (messages[i].content.empty())
      line.reject("message {}: the assistant's text is empty", i + 1);
  }
  conversation.is_incomplete = messages.empty() || messages.back().role != "assistant";
  if (!conversation.is_incomplete || rules.takes_incomplete) return;
  if (!has_answer) line.reject("no message is an assistant's");
  line.reject("the last message is not an assistant's; --sft-drop-incomplete leaves such out");
}

}  // namespace

Conversation ConversationReader::read(std::string_view text, std::size_t line_number) {
  const Line line(fmt::format("{}:{}", file_, line_number), text);
  Conversation conversation = line.read();
  if (kind_ && *kind_ != conversation.kind) {
    line.reject("it has {}, and the lines before have {}", name_of(conversation.kind),
                name_of(*kind_));
  }
  kind_ = conversation.kind;
  if (rules_.needs_answer && !conversation.text) check_answers(line, rules_, conversation);
  return conversation;
}

}  // namespace phalanx
