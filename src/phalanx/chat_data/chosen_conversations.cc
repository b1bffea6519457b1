#include "phalanx/chat_data/chosen_conversations.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

ChosenConversations::ChosenConversations(std::shared_ptr<const ConversationTokens> all,
                                         std::span<const std::uint32_t> numbers,
                                         std::int64_t most_tokens, Truncation truncation)
    : all_(std::move(all)), truncation_(truncation) {
  for (const std::uint32_t number : numbers) {
    const ConversationEntry entry = all_->entry(number);
    const bool is_long = entry.tokens > most_tokens;
    if (is_long && truncation_ == Truncation::kError) {
      throw ConfigError(
          "{}:{}: {} tokens are more than --seq-length {}: give a longer one, or --sft-truncation "
          "drop, end or start",
          all_->file(), entry.line, format_count(entry.tokens), most_tokens);
    }
    if (is_long && truncation_ == Truncation::kDrop) {
      ++counts_.too_long;
      continue;
    }
    const std::int64_t tokens = std::min(entry.tokens, most_tokens);
    std::int64_t labels = entry.trained_labels;
    if (is_long) {
      const auto mask = all_->trained(number);
      const std::int64_t first = truncation_ == Truncation::kStart ? entry.tokens - tokens : 0;
      labels = std::count(mask.begin() + first + 1, mask.begin() + first + tokens, std::uint8_t{1});
    }
    if (labels == 0) {
      ++counts_.untrained;
      continue;
    }
    if (is_long) ++counts_.cut;
    numbers_.push_back(number);
    lengths_.push_back(static_cast<std::int32_t>(tokens));
    counts_.tokens += tokens;
    counts_.trained_labels += labels;
  }
  counts_.conversations = std::ssize(numbers_);
}

std::int64_t ChosenConversations::skipped(std::int64_t sequence) const {
  if (truncation_ != Truncation::kStart) return 0;
  return all_->entry(number(sequence)).tokens - length(sequence);
}

void ChosenConversations::get(std::int64_t sequence, std::int64_t offset,
                              std::span<std::int32_t> out) const {
  all_->get(number(sequence), skipped(sequence) + offset, out);
}

std::span<const std::uint8_t> ChosenConversations::trained(std::int64_t sequence) const {
  return all_->trained(number(sequence))
      .subspan(static_cast<std::size_t>(skipped(sequence)),
               static_cast<std::size_t>(length(sequence)));
}

}  // namespace phalanx
