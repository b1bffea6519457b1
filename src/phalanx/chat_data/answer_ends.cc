#include "phalanx/chat_data/answer_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/chat/end_of_turn.h"

namespace phalanx {
namespace {

bool trains_one_of(const ChosenConversations& conversations, std::span<const std::int32_t> ends) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < conversations.sequences(); ++i) {
    ids.resize(static_cast<std::size_t>(conversations.length(i)));
    conversations.get(i, 0, ids);
    const auto trained = conversations.trained(i);
    // The first token is no label.
    for (std::size_t at = 1; at < ids.size(); ++at) {
      if (trained[at] != 0 && std::ranges::find(ends, ids[at]) != ends.end()) return true;
    }
  }
  return false;
}

}  // namespace

std::string fault_of_answer_ends(const ChosenConversations& conversations,
                                 const Tokenizer& tokenizer, const ConversationOptions& options) {
  const std::int32_t of_turn = end_of_turn(
      tokenizer, ChatTemplate::parse(options.chat_template.text, options.chat_template.name),
      options.settings);
  const std::int32_t of_text = tokenizer.special_tokens().eos.value_or(tokenizer.end_of_document());
  std::vector<std::int32_t> ends = {of_turn, of_text, tokenizer.end_of_document()};
  std::erase_if(ends, [](std::int32_t id) { return id < 0; });
  if (trains_one_of(conversations, ends)) return {};
  std::string fault;
  if (of_turn >= 0) {
    fault = fmt::format(
        "no trained token is '{}', with which the template ends a turn: answers will not end; "
        "{{% generation %}} must hold it, and texts without a template must have it in them",
        tokenizer.piece(of_turn));
  } else if (of_text >= 0) {
    fault = fmt::format(
        "no trained token is '{}', the end of a text, and the template writes no special token "
        "behind an answer: answers will not end; --chat-template FILE names one that does",
        tokenizer.piece(of_text));
  } else {
    fault =
        "the template writes no special token behind an answer, and the tokenizer has none that "
        "ends a text: answers will not end; --chat-template FILE names one that does";
  }
  const ChoiceCounts& counts = conversations.counts();
  if (counts.cut > 0) {
    fault += fmt::format("; {} of {} conversations are cut to --seq-length",
                         format_count(counts.cut), format_count(counts.conversations));
  }
  return fault;
}

}  // namespace phalanx
