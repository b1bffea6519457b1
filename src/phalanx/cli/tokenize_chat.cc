#include "phalanx/cli/tokenize_chat.h"

#include <nlohmann/json.hpp>

#include "phalanx/chat/chat_encoder.h"
#include "phalanx/chat/conversation.h"
#include "phalanx/chat/template_file.h"
#include "phalanx/chat/unused_keys.h"
#include "phalanx/cli/text_input.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kInput = "standard input";

Json line_of(ChatEncoder& encoder, const Conversation& conversation, bool add_generation_prompt,
             KeyUses& keys) {
  try {
    const EncodedChat encoded = encoder.encode(conversation, add_generation_prompt);
    keys.add(encoded.keys);
    Json line = {{"text", encoded.text}, {"ids", encoded.ids}, {"mask", nullptr}};
    if (encoded.mask) line["mask"] = *encoded.mask;
    return line;
  } catch (const TemplateRaised& raised) {
    return {{"error", raised.raised()}};
  } catch (const DataError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int tokenize_chat(CommandIo& io, const Tokenizer& tokenizer, const TokenizeChatOptions& options) {
  ChatSettings settings{.special_tokens = template_tokens(tokenizer, options.tokenizer_model),
                        .arguments = options.arguments};
  if (!options.date.empty()) settings.date = template_day(options.date);
  ChatEncoder encoder(tokenizer, find_chat_template(options.file, options.tokenizer_model),
                      std::move(settings));
  ConversationReader reader(kInput, {.needs_answer = false});
  KeyUses keys;
  InputLines lines(io);
  std::size_t number = 0;
  for (auto batch = lines.next(64); !batch.empty(); batch = lines.next(64)) {
    std::string out;
    for (const std::string& line : batch) {
      const Conversation conversation = reader.read(line, ++number);
      try {
        out += line_of(encoder, conversation, options.add_generation_prompt, keys)
                   .dump(-1, ' ', false, Json::error_handler_t::replace);
      } catch (const ConfigError& error) {
        throw ConfigError("{}:{}: {}", kInput, number, error.what());
      }
      out += '\n';
    }
    io.write(out);
  }
  warn_of_unused_keys(kInput, keys.unused());
  return 0;
}

}  // namespace phalanx
