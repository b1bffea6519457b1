#include "phalanx/chat/chat_encoder.h"

#include <fmt/format.h>

#include <algorithm>

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

RenderedChat ChatEncoder::rendered(const std::vector<ChatMessage>& messages, std::size_t count,
                                   bool add_generation_prompt) const {
  return template_.render(
      {.messages = {messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)},
       .add_generation_prompt = add_generation_prompt,
       .special_tokens = settings_.special_tokens,
       .arguments = settings_.arguments,
       .date = settings_.date});
}

std::vector<TextSpan> ChatEncoder::by_prefixes(const std::vector<ChatMessage>& messages,
                                               const std::string& whole, std::size_t first_answer,
                                               std::string& why) const {
  std::vector<TextSpan> spans;
  for (std::size_t k = first_answer; k < messages.size(); ++k) {
    if (messages[k].role != "assistant") continue;
    if (k == 0) {
      why = "message 1 is an assistant's, with nothing before it";
      return {};
    }
    std::string before;
    std::string with;
    try {
      before = rendered(messages, k, true).text;
      with = rendered(messages, k + 1, false).text;
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

std::vector<TextSpan> ChatEncoder::trained(const Conversation& conversation,
                                           const RenderedChat& whole, std::string& why) const {
  const TextSpan everything{0, whole.text.size()};
  if (settings_.loss == ChatLoss::kAll) return {everything};
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
  if (!template_.marks_generation()) return by_prefixes(messages, whole.text, first_answer, why);
  if (first_answer == 0) return whole.generation;
  // Of a part of the answers: those spans that begin behind what was before.
  const auto is_answer = [](const ChatMessage& message) { return message.role == "assistant"; };
  const auto last = messages.begin() + static_cast<std::ptrdiff_t>(first_answer);
  const auto skipped = static_cast<std::size_t>(std::count_if(messages.begin(), last, is_answer));
  const auto all =
      static_cast<std::size_t>(std::count_if(messages.begin(), messages.end(), is_answer));
  if (whole.generation.size() != all) {
    why = fmt::format("the template marks {} texts for {} messages of the assistant",
                      whole.generation.size(), all);
    return {};
  }
  return {whole.generation.begin() + static_cast<std::ptrdiff_t>(skipped), whole.generation.end()};
}

EncodedChat ChatEncoder::encode(const Conversation& conversation, bool add_generation_prompt) {
  const RenderedChat whole =
      conversation.text
          ? RenderedChat{*conversation.text, {}}
          : rendered(conversation.messages, conversation.messages.size(), add_generation_prompt);
  EncodedChat encoded;
  encoded.text = whole.text;
  encoded.ids = tokenizer_.encode(whole.text, {.parse_special = true});
  const std::vector<TextSpan> spans = trained(conversation, whole, encoded.why);
  if (encoded.why.empty()) encoded.mask = mask_of(places_.of(whole.text, encoded.ids), spans);
  return encoded;
}

std::optional<std::size_t> ChatEncoder::message_with_special_token(
    const Conversation& conversation, const SpecialTexts& special) const {
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
    const std::string& content = conversation.messages[i].content;
    if (special.may_occur_in(content) &&
        tokenizer_.encode(content, {.parse_special = true}) != tokenizer_.encode(content)) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace phalanx
