#pragma once
// Conversations that are trained or evaluated: some of a file, none longer than a sample, each with
// a label that is trained.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/chat_data/conversation_tokens.h"
#include "phalanx/data/token_sequences.h"

namespace phalanx {

// What becomes of a conversation that is longer than a sample.
enum class Truncation {
  kError,
  kDrop,
  kEnd,    // its first tokens are kept
  kStart,  // its last tokens are kept
};

struct ChoiceCounts {
  std::int64_t conversations = 0;  // chosen
  std::int64_t tokens = 0;         // of these
  std::int64_t trained_labels = 0;
  std::int64_t too_long = 0;   // left out
  std::int64_t cut = 0;        // shortened
  std::int64_t untrained = 0;  // left out, because no label is trained, or none is left
  friend bool operator==(const ChoiceCounts&, const ChoiceCounts&) = default;
};

class ChosenConversations final : public TokenSequences {
 public:
  // Of the conversations with these numbers, in this order. ConfigError, naming file and line,
  // for one of more than `most_tokens` tokens with kError.
  ChosenConversations(std::shared_ptr<const ConversationTokens> all,
                      std::span<const std::uint32_t> numbers, std::int64_t most_tokens,
                      Truncation truncation);

  const ChoiceCounts& counts() const { return counts_; }
  // The number of a sequence in the file.
  std::int64_t number(std::int64_t sequence) const {
    return numbers_[static_cast<std::size_t>(sequence)];
  }

  std::string_view name() const override { return all_->file(); }
  std::int64_t sequences() const override { return std::ssize(numbers_); }
  std::int32_t length(std::int64_t sequence) const override {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  SequenceLengths lengths(std::int64_t begin, std::int64_t end) const override {
    return SequenceLengths(std::span(lengths_)).part(begin, end);
  }
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;
  std::span<const std::uint8_t> trained(std::int64_t sequence) const override;

 private:
  // Tokens that are left out at the start.
  std::int64_t skipped(std::int64_t sequence) const;

  std::shared_ptr<const ConversationTokens> all_;
  Truncation truncation_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::int32_t> lengths_;
  ChoiceCounts counts_;
};

}  // namespace phalanx
