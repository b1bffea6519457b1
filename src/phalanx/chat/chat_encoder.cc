#include "phalanx/chat/chat_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "phalanx/base/error.h"
#include "phalanx/chat/message_keys.h"
#include "phalanx/chat/unused_keys.h"

namespace phalanx {
namespace {

// Where two texts differ first, with what each has there.
std::string difference(std::string_view expected, std::string_view found) {
  const auto [a, b] = std::ranges::mismatch(expected, found);
  const auto at = static_cast<std::size_t>(a - expected.begin());
  const auto shown = [&](std::string_view text) {
    constexpr std::size_t kShown = 40;
    return text.substr(std::min(at, text.size()), kShown);
  };
  return fmt::format("at byte {} '{}' against '{}'", at, shown(expected), shown(found));
}

// Whether a message does not say that it is not trained.
bool is_wanted(const Conversation& conversation, std::size_t message) {
  const auto& wishes = conversation.wishes;
  const auto wish = std::ranges::lower_bound(wishes, message, {}, &TrainingWish::message);
  return wish == wishes.end() || wish->message != message || wish->is_trained;
}

}  // namespace

std::vector<std::uint8_t> mask_of(const std::vector<TokenPlace>& places,
                                  const std::vector<TextSpan>& spans) {
  std::vector<std::uint8_t> mask(places.size(), 0);
  std::size_t first = 0;  // the spans before end before the token
  for (std::size_t i = 0; i < places.size(); ++i) {
    while (first < spans.size() && spans[first].end <= places[i].begin) ++first;
    for (std::size_t s = first; s < spans.size() && spans[s].begin < places[i].end; ++s) {
      const bool overlaps =
          std::max(spans[s].begin, places[i].begin) < std::min(spans[s].end, places[i].end);
      if (overlaps) mask[i] = 1;
    }
  }
  return mask;
}

RenderedChat ChatEncoder::rendered(const Conversation& conversation, std::size_t count,
                                   bool add_generation_prompt, bool watches_keys) const {
  const auto& messages = conversation.messages;
  return template_.render(
      {.messages = {messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)},
       .add_generation_prompt = add_generation_prompt,
       .special_tokens = settings_.special_tokens,
       .arguments = settings_.arguments,
       .conversation_arguments = conversation.arguments,
       .watches_keys = watches_keys,
       .date = settings_.date});
}

std::vector<TextSpan> ChatEncoder::by_prefixes(const Conversation& conversation,
                                               const std::string& whole, std::size_t first_answer,
                                               std::string& why) const {
  const auto& messages = conversation.messages;
  std::vector<TextSpan> spans;
  for (std::size_t k = first_answer; k < messages.size(); ++k) {
    if (messages[k].role != "assistant" || !is_wanted(conversation, k)) continue;
    if (k == 0) {
      why = "message 1 is an assistant's, with nothing before it";
      return {};
    }
    std::string before;
    std::string with;
    try {
      before = rendered(conversation, k, true).text;
      with = rendered(conversation, k + 1, false).text;
    } catch (const DataError& error) {
      why = fmt::format("message {}: the conversation up to there is refused: {}", k + 1,
                        error.what());
      return {};
    }
    for (const std::string& part : {before, with}) {
      if (whole.starts_with(part)) continue;
      why = fmt::format(
          "message {}: the whole conversation does not begin as the template writes its first {} "
          "messages, {}; a template with {{% generation %}} shows what the assistant says",
          k + 1, &part == &before ? k : k + 1, difference(part, whole));
      return {};
    }
    if (with.size() > before.size()) spans.push_back({before.size(), with.size()});
  }
  return spans;
}

// The texts in {% generation %}, of which the answers have one each where some are not trained.
std::vector<TextSpan> ChatEncoder::by_marks(const Conversation& conversation,
                                            const RenderedChat& whole, std::size_t first_answer,
                                            std::string& why) const {
  std::vector<bool> is_trained;  // of the answers
  for (std::size_t k = 0; k < conversation.messages.size(); ++k) {
    if (conversation.messages[k].role != "assistant") continue;
    is_trained.push_back(k >= first_answer && is_wanted(conversation, k));
  }
  if (first_answer == 0 && std::ranges::find(is_trained, false) == is_trained.end()) {
    return whole.generation;
  }
  if (whole.generation.size() != is_trained.size()) {
    why = fmt::format("the template marks {} texts for {} messages of the assistant",
                      whole.generation.size(), is_trained.size());
    return {};
  }
  std::vector<TextSpan> spans;
  for (std::size_t i = 0; i < is_trained.size(); ++i) {
    if (is_trained[i]) spans.push_back(whole.generation[i]);
  }
  return spans;
}

std::vector<TextSpan> ChatEncoder::trained(const Conversation& conversation,
                                           const RenderedChat& whole, std::string& why) const {
  const TextSpan everything{0, whole.text.size()};
  if (conversation.is_untrained) return {};
  if (settings_.loss == ChatLoss::kAll) {
    for (const TrainingWish& wish : conversation.wishes) {
      if (wish.is_trained) continue;
      throw ConfigError(
          "message {} has a \"{}\" that says it is not trained, and --sft-loss all trains "
          "everything: give another --sft-loss",
          wish.message + 1, wish.key);
    }
    return {everything};
  }
  if (conversation.text) return {{conversation.trained_from, whole.text.size()}};
  const auto& messages = conversation.messages;
  std::size_t first_answer = 0;
  if (conversation.kind == ConversationKind::kCompletion) {
    first_answer = conversation.prompt_messages;
  } else if (settings_.loss == ChatLoss::kCompletion) {
    why = "it has no prompt and completion";
    return {};
  }
  if (settings_.loss == ChatLoss::kLast && !messages.empty()) first_answer = messages.size() - 1;
  return template_.marks_generation() ? by_marks(conversation, whole, first_answer, why)
                                      : by_prefixes(conversation, whole.text, first_answer, why);
}

std::vector<KeyUse> ChatEncoder::keys_of(const Conversation& conversation,
                                         const RenderedChat& whole) const {
  std::vector<KeyUse> keys = line_keys(conversation);
  std::ranges::move(template_keys(whole), std::back_inserter(keys));
  for (const TrainingWish& wish : conversation.wishes) {
    if (!wish.is_trained || conversation.messages[wish.message].role == "assistant" ||
        settings_.loss == ChatLoss::kAll) {
      continue;
    }
    keys.push_back(
        {fmt::format("\"{}\" of messages that are not the assistant's", wish.key), false});
  }
  return keys;
}

EncodedChat ChatEncoder::encode(const Conversation& conversation, bool add_generation_prompt) {
  RenderedChat whole = conversation.text ? RenderedChat{.text = *conversation.text}
                                         : rendered(conversation, conversation.messages.size(),
                                                    add_generation_prompt, /*watches_keys=*/true);
  EncodedChat encoded;
  encoded.ids = tokenizer_.encode(whole.text, {.parse_special = true});
  const std::vector<TextSpan> spans = trained(conversation, whole, encoded.why);
  if (encoded.why.empty()) encoded.mask = mask_of(places_.of(whole.text, encoded.ids), spans);
  encoded.keys = keys_of(conversation, whole);
  encoded.text = std::move(whole.text);
  return encoded;
}

std::optional<std::string> ChatEncoder::place_of_special_token(const Conversation& conversation,
                                                               const SpecialTexts& special) const {
  const auto has_one = [&](const std::string& text) {
    return special.may_occur_in(text) &&
           tokenizer_.encode(text, {.parse_special = true}) != tokenizer_.encode(text);
  };
  std::optional<std::string> found;
  const auto look_into = [&](std::string object, const auto& place_of) {
    visit_texts(object, {.change_text =
                             [&](std::string_view key, const std::string& text) {
                               if (!found && has_one(text)) found = place_of(key);
                             },
                         .see_name =
                             [&](std::string_view key, std::string_view name) {
                               if (!found && has_one(std::string(name))) found = place_of(key);
                             }});
  };
  for (std::size_t i = 0; i < conversation.messages.size() && !found; ++i) {
    const ChatMessage& message = conversation.messages[i];
    if (has_one(message.content)) return fmt::format("message {}", i + 1);
    look_into(message.fields,
              [&](std::string_view key) { return fmt::format("message {}: \"{}\"", i + 1, key); });
  }
  look_into(conversation.arguments, [](std::string_view key) {
    return fmt::format("\"{}\" of chat_template_kwargs", key);
  });
  return found;
}

}  // namespace phalanx
