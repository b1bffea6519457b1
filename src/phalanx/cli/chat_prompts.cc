#include "phalanx/cli/chat_prompts.h"

#include <fmt/format.h>

#include "phalanx/base/error.h"
#include "phalanx/chat/template_file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

std::vector<ChatMessage> begun(const ChatOptions& options) {
  if (options.system.empty()) return {};
  return {{"system", options.system}};
}

// Where the tokenizer's other files are: with it, or in the checkpoint, which holds copies.
fs::path tokenizer_place(const TrainedModel& trained) {
  const std::string& model = trained.config.tokenizer.tokenizer_model;
  return model.empty() ? trained.checkpoint.directory() : fs::path(model);
}

fs::path template_file(const ChatOptions& options, const TrainedModel& trained) {
  if (!options.template_file.empty()) return options.template_file;
  const fs::path held = trained.checkpoint.directory() / kChatTemplateName;
  return fs::exists(held) ? held : fs::path();
}

}  // namespace

void add_chat_flags(FlagSet& flags, ChatOptions& options) {
  flags.section("Chat");
  flags.add({.name = "--chat",
             .help = "Prompts are what a user says, rendered with the model's chat template; a "
                     ".jsonl file may have {\"messages\": [...]}. What the assistant answers is "
                     "printed",
             .excludes = "--parse-special-tokens --add-special-tokens"},
            &options.is_on);
  flags.add({.name = "--system",
             .help = "The system message of each conversation",
             .value_name = "TEXT",
             .needs = "--chat"},
            &options.system);
  flags.add({.name = "--chat-template",
             .help = "The chat template (Jinja), instead of the checkpoint's or the tokenizer's",
             .value_name = "FILE",
             .needs = "--chat"},
            &options.template_file);
  flags.add({.name = "--chat-template-args",
             .help = "Variables for the template, as a JSON object",
             .value_name = "JSON",
             .needs = "--chat"},
            &options.arguments);
  flags.add({.name = "--chat-template-date",
             .help = "The day that a template is told when it asks for today's",
             .value_name = "YYYY-MM-DD",
             .needs = "--chat"},
            &options.date);
}

PromptEncoder prompt_encoder(const ChatOptions& options, const TrainedModel& trained) {
  const fs::path place = tokenizer_place(trained);
  ChatSettings settings{.special_tokens = template_tokens(*trained.tokenizer, place),
                        .arguments = options.arguments};
  if (!options.date.empty()) settings.date = template_day(options.date);
  return {*trained.tokenizer, find_chat_template(template_file(options, trained), place),
          std::move(settings)};
}

std::vector<ChatMessage> conversation_of(const ChatOptions& options, const std::string& text,
                                         std::string_view source) {
  if (text.empty()) throw ConfigError("{} is empty: with --chat it is what the user says", source);
  std::vector<ChatMessage> messages = begun(options);
  messages.push_back({"user", text});
  return messages;
}

Conversation conversation_of_json(const ChatOptions& options, const std::string& line,
                                  const std::string& file, std::size_t line_number) {
  const std::string source = fmt::format("{}, line {}", file, line_number);
  Conversation read = ConversationReader(file, {.needs_answer = false, .takes_questions = true})
                          .read(line, line_number);
  if (read.text) {
    throw DataError("{}: expected a JSON object with \"messages\" or a text \"prompt\"", source);
  }
  std::vector<ChatMessage>& messages = read.messages;
  if (!options.system.empty() && !messages.empty() && messages.front().role == "system") {
    throw DataError("{}: the conversation has a system message: leave --system out", source);
  }
  if (messages.empty() || messages.back().role != "user") {
    throw DataError("{}: the last message is not a user's: there is nothing to answer", source);
  }
  if (read.kind == ConversationKind::kInstruction && messages.back().content.empty()) {
    throw ConfigError("{} is empty: with --chat it is what the user says", source);
  }
  const std::vector<ChatMessage> system = begun(options);
  messages.insert(messages.begin(), system.begin(), system.end());
  return read;
}

}  // namespace phalanx
