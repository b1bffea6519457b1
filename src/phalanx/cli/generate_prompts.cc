#include "phalanx/cli/generate_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/chat/unused_keys.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

std::string prompt_of_json(const std::string& line, std::string_view source) {
  const Json document = Json::parse(line, nullptr, false);
  if (!document.is_object() || !document.contains("prompt") || !document["prompt"].is_string()) {
    const bool is_chat = document.is_object() && document.contains("messages");
    throw DataError("{}: expected a JSON object with a text \"prompt\"{}", source,
                    is_chat ? "; --chat reads \"messages\"" : "");
  }
  return document["prompt"].get<std::string>();
}

// A line of --prompts-file.
GeneratePrompt prompt_of_line(const GenerateOptions& options, const std::string& line,
                              std::size_t number) {
  const std::string& path = options.prompts_file;
  GeneratePrompt prompt{.source = fmt::format("{}, line {}", path, number)};
  const bool is_json = path.ends_with(".jsonl");
  if (options.chat.is_on && is_json) {
    Conversation read = conversation_of_json(options.chat, line, path, number);
    prompt.messages = std::move(read.messages);
    prompt.arguments = std::move(read.arguments);
    prompt.keys = line_keys(read);
  } else if (options.chat.is_on) {
    prompt.messages = conversation_of(options.chat, line, prompt.source);
  } else {
    prompt.text = is_json ? prompt_of_json(line, prompt.source) : line;
  }
  return prompt;
}

void add_prompts_of_file(const GenerateOptions& options, std::vector<GeneratePrompt>& prompts) {
  const std::string text = read_file(options.prompts_file);
  const std::size_t before = prompts.size();
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back(prompt_of_line(options, line, number));
  }
  if (prompts.size() == before) {
    throw DataError("--prompts-file {}: has no prompt", options.prompts_file);
  }
}

// The ids of a text.
void encode(const GenerateOptions& options, const Tokenizer& tokenizer, GeneratePrompt& prompt) {
  prompt.ids = tokenizer.encode(prompt.text, options.encoding);
  // Without a prompt the text begins as a document does.
  const std::int32_t begin = tokenizer.end_of_document();
  if (prompt.ids.empty() && begin < 0) {
    throw ConfigError("{} is empty, and the tokenizer has no end of document to begin with",
                      prompt.source);
  }
  if (prompt.ids.empty()) prompt.ids.push_back(begin);
}

// The text and ids of a conversation.
void encode(PromptEncoder& encoder, GeneratePrompt& prompt) {
  try {
    ChatPrompt encoded = encoder.encode(prompt.messages, prompt.arguments);
    prompt.text = std::move(encoded.text);
    prompt.ids = std::move(encoded.ids);
    std::ranges::move(encoded.keys, std::back_inserter(prompt.keys));
  } catch (const DataError& error) {
    throw DataError("{}: {}", prompt.source, error.what());
  } catch (const ConfigError& error) {
    throw ConfigError("{}: {}", prompt.source, error.what());
  }
  if (prompt.ids.empty()) {
    throw ConfigError("{}: the chat template makes no text of the conversation", prompt.source);
  }
}

}  // namespace

std::int32_t end_of_turn(const PromptEncoder& encoder) {
  const std::int32_t end = encoder.end_of_turn();
  if (end < 0) {
    log_warning(
        "the chat template writes no special token behind an answer: one ends at the model's end "
        "tokens, --stop or --max-tokens");
  }
  return end;
}

GeneratePrompts read_prompts(const GenerateOptions& options, const TrainedModel& trained) {
  GeneratePrompts prompts;
  std::vector<GeneratePrompt>& all = prompts.all;
  for (const std::string& text : options.prompts) {
    GeneratePrompt prompt{.source = "--prompt"};
    if (options.chat.is_on) {
      prompt.messages = conversation_of(options.chat, text, prompt.source);
    } else {
      prompt.text = text;
    }
    all.push_back(std::move(prompt));
  }
  if (!options.prompts_file.empty()) add_prompts_of_file(options, all);
  std::optional<PromptEncoder> encoder;
  if (options.chat.is_on) {
    if (all.empty()) throw ConfigError("--chat answers --prompt, --prompts-file or --interactive");
    encoder.emplace(prompt_encoder(options.chat, trained));
  } else if (all.empty()) {
    all.push_back({.source = "--prompt"});
  }
  const std::int64_t positions = trained.model.max_positions;
  for (GeneratePrompt& prompt : all) {
    if (encoder) {
      encode(*encoder, prompt);
    } else {
      encode(options, *trained.tokenizer, prompt);
    }
    const std::int64_t length = std::ssize(prompt.ids);
    if (length > positions) {
      throw ConfigError("{} has {} tokens, the model has {} positions: shorten it", prompt.source,
                        length, positions);
    }
    if (length + options.max_tokens > positions + 1) {
      log_warning("the model has {} positions: at most {} tokens follow {}", positions,
                  positions + 1 - length,
                  all.size() == 1 ? std::string("the prompt") : prompt.source);
    }
  }
  if (!encoder) return prompts;
  KeyUses keys;
  for (const GeneratePrompt& prompt : all) keys.add(prompt.keys);
  warn_of_unused_keys(options.prompts_file.empty() ? "--chat" : options.prompts_file,
                      keys.unused());
  prompts.end_of_turn = end_of_turn(*encoder);
  return prompts;
}

}  // namespace phalanx
