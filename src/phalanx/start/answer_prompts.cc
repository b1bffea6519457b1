#include "phalanx/start/answer_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/chat/prompt_encoder.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/inference/run_answers.h"

namespace phalanx {
namespace {

PromptEncoder encoder_of(const TrainConfig& config, const Tokenizer& tokenizer) {
  const DataConfig& data = config.data;
  const TemplateText found = chat_template_text(data, config.tokenizer);
  ChatSettings settings{
      .special_tokens = template_tokens(tokenizer, config.tokenizer.tokenizer_model),
      .arguments = data.chat_template_args};
  if (!data.chat_template_date.empty()) settings.date = template_day(data.chat_template_date);
  return {tokenizer, ChatTemplate::parse(found.text, found.name), std::move(settings)};
}

}  // namespace

AnswerPrompts read_answer_prompts(const TrainConfig& config, const Tokenizer& tokenizer) {
  const std::string& file = config.run.answer_prompts;
  const std::string text = read_file(file);
  PromptEncoder encoder = encoder_of(config, tokenizer);
  AnswerPrompts read;
  ConversationReader reader(file);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("--answer-prompts {}, line {}", file, number);
    Conversation conversation = reader.read(line, number);
    if (conversation.text || conversation.messages.size() < 2) {
      throw DataError("{}: expected messages, and the assistant's behind them", place);
    }
    AnswerPrompt prompt{.messages = std::move(conversation.messages), .expected = {}, .ids = {}};
    prompt.expected = std::move(prompt.messages.back().content);
    prompt.messages.pop_back();
    try {
      prompt.ids = encoder.encode(prompt.messages, conversation.arguments).ids;
    } catch (const DataError& error) {
      throw DataError("{}: {}", place, error.what());
    } catch (const ConfigError& error) {
      throw ConfigError("{}: {}", place, error.what());
    }
    const std::int64_t positions = answer_positions(config);
    if (prompt.ids.empty() || std::ssize(prompt.ids) > positions) {
      throw DataError("{}: the prompt has {} tokens, and at most {} can be read: shorten it", place,
                      prompt.ids.size(), positions);
    }
    read.prompts.push_back(std::move(prompt));
  }
  if (read.prompts.empty()) throw DataError("--answer-prompts {}: has no conversation", file);
  for (const std::int32_t id : {encoder.end_of_turn(), tokenizer.end_of_document()}) {
    if (id >= 0) read.ends.push_back(id);
  }
  return read;
}

}  // namespace phalanx
