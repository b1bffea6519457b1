#include "phalanx/chat_data/conversation_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/chat_data/conversation_lines.h"
#include "phalanx/chat_data/growing_block.h"

namespace phalanx {
namespace {

// A block: of every conversation ids (4 bytes each), mask (a byte each) and up to 3 bytes that make
// the next one begin at a multiple of 4; then the entries, the unused keys as text, the tail.
constexpr std::int64_t kIdBytes = 4;
constexpr std::int64_t kTokenBytes = kIdBytes + 1;

struct Tail {
  std::int64_t unused_bytes = 0;  // of the text
  ConversationCounts counts;
};

class BlockBuilder {
 public:
  explicit BlockBuilder(const std::filesystem::path& directory) : block_(directory) {}

  void add(const EncodedLines& lines) {
    std::vector<std::byte> bytes;
    std::size_t at = 0;
    for (const EncodedLines::Conversation& conversation : lines.conversations) {
      const std::span ids = std::span(lines.ids).subspan(at, conversation.tokens);
      const std::span trained = std::span(lines.trained).subspan(at, conversation.tokens);
      at += conversation.tokens;
      entries_.push_back(
          {.place = block_.size() + std::ssize(bytes),
           .line = conversation.line,
           .tokens = std::ssize(ids),
           .trained_labels =
               ids.empty() ? 0 : std::count(trained.begin() + 1, trained.end(), std::uint8_t{1})});
      const auto put = [&](std::span<const std::byte> part) {
        bytes.insert(bytes.end(), part.begin(), part.end());
      };
      put(std::as_bytes(ids));
      put(std::as_bytes(trained));
      bytes.resize(static_cast<std::size_t>(round_up(std::ssize(bytes), kIdBytes)));
      count(entries_.back());
    }
    tail_.counts.incomplete += lines.incomplete;
    keys_.add(lines.keys);
    block_.append(bytes);
  }

  IndexBlock finish() {
    // Entries have numbers of 8 bytes.
    constexpr std::int64_t kNumber = sizeof(std::int64_t);
    const std::vector<std::byte> gap(
        static_cast<std::size_t>(round_up(block_.size(), kNumber) - block_.size()));
    block_.append(gap);
    block_.append(std::as_bytes(std::span(entries_)));
    const std::string unused = keys_.unused();
    tail_.unused_bytes = std::ssize(unused);
    block_.append(std::as_bytes(std::span(unused)));
    block_.append(std::as_bytes(std::span(&tail_, 1)));
    return block_.finish();
  }

 private:
  void count(const ConversationEntry& entry) {
    ConversationCounts& counts = tail_.counts;
    ++counts.conversations;
    counts.tokens += entry.tokens;
    counts.trained_labels += entry.trained_labels;
    counts.longest = std::max(counts.longest, entry.tokens);
  }

  GrowingBlock block_;
  std::vector<ConversationEntry> entries_;
  Tail tail_;
  KeyUses keys_;
};

// Everything that decides the block.
std::string describe(const FileDigest& file, const ConversationOptions& options) {
  std::string text = fmt::format(
      "conversations as token ids, version 2\nfile: {} bytes with xxh3 {}\nxxh3 of the template: "
      "{}\ntokenizer: {}\narguments: {}\ndate: {}\nloss: {}\nspecial tokens in messages: "
      "{}\nincomplete conversations: {}\n",
      file.bytes, digest_to_text(file.xxh3), digest_to_text(xxh3(options.chat_template.text)),
      options.tokenizer_identity, digest_to_text(xxh3(options.settings.arguments)),
      options.settings.date
          ? fmt::format("{}-{}-{}", static_cast<int>(options.settings.date->year()),
                        static_cast<unsigned>(options.settings.date->month()),
                        static_cast<unsigned>(options.settings.date->day()))
          : "none",
      static_cast<int>(options.settings.loss), options.parses_special_tokens ? "parsed" : "refused",
      options.drops_incomplete ? "left out" : "refused");
  for (const auto& [name, token] : options.settings.special_tokens) {
    text += fmt::format("{}: {}\n", name, token);
  }
  return text;
}

template <typename T>
T load(std::span<const std::byte> bytes, std::int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

std::shared_ptr<const ConversationTokens> ConversationTokens::read(
    const std::filesystem::path& file, const Tokenizer& tokenizer,
    const ConversationOptions& options, const IndexCache* cache,
    const std::function<void()>& poll) {
  const auto build = [&](const std::filesystem::path& directory) {
    ConversationLines lines(file, tokenizer, options);
    BlockBuilder builder(directory);
    lines.encode([&](const EncodedLines& encoded) { builder.add(encoded); }, poll);
    return builder.finish();
  };
  if (cache == nullptr) {
    return std::shared_ptr<const ConversationTokens>(
        new ConversationTokens(file.string(), build({})));
  }
  const IndexRequest request{.name = "conversations",
                             .description = describe(digest_file(file), options),
                             .bytes = std::nullopt};
  const auto directory = cache->path_of(request).parent_path();
  return std::shared_ptr<const ConversationTokens>(
      new ConversationTokens(file.string(), cache->get(
                                                request, [&] { return build(directory); }, poll)));
}

ConversationTokens::ConversationTokens(std::string file, IndexBlock block)
    : file_(std::move(file)), block_(std::move(block)) {
  constexpr std::int64_t kTail = sizeof(Tail);
  const std::int64_t bytes = std::ssize(block_.bytes);
  const auto refuse = [&] [[noreturn]] {
    throw DataError("{}: these are no ids of conversations; delete the file, and it is made anew",
                    block_.file);
  };
  if (bytes < kTail) refuse();
  const Tail tail = load<Tail>(block_.bytes, bytes - kTail);
  counts_ = tail.counts;
  if (counts_.conversations < 0 || counts_.conversations > bytes) refuse();
  if (tail.unused_bytes < 0 || tail.unused_bytes > bytes - kTail) refuse();
  const std::int64_t text = bytes - kTail - tail.unused_bytes;
  entries_ = text - counts_.conversations * static_cast<std::int64_t>(sizeof(ConversationEntry));
  if (entries_ < 0) refuse();
  unused_keys_.assign(reinterpret_cast<const char*>(block_.bytes.data()) + text,
                      static_cast<std::size_t>(tail.unused_bytes));
}

ConversationEntry ConversationTokens::entry(std::int64_t conversation) const {
  PHALANX_CHECK(conversation >= 0 && conversation < size(), "conversation {} of {}", conversation,
                size());
  const auto entry = load<ConversationEntry>(
      block_.bytes, entries_ + conversation * static_cast<std::int64_t>(sizeof(ConversationEntry)));
  // The entry may come from a file.
  if (entry.place < 0 || entry.tokens < 0 || entry.tokens > entries_ / kTokenBytes ||
      entry.place > entries_ - entry.tokens * kTokenBytes) {
    throw DataError(
        "{}: the entry of conversation {} is damaged; delete the file, and it is made "
        "anew",
        block_.file, conversation);
  }
  return entry;
}

void ConversationTokens::get(std::int64_t conversation, std::int64_t offset,
                             std::span<std::int32_t> out) const {
  const ConversationEntry whole = entry(conversation);
  const std::int64_t count = std::ssize(out);
  PHALANX_CHECK(offset >= 0 && count <= whole.tokens - offset, "tokens {} to {} of {}", offset,
                offset + count, whole.tokens);
  if (out.empty()) return;
  std::memcpy(out.data(), block_.bytes.data() + whole.place + offset * kIdBytes, out.size_bytes());
}

std::span<const std::uint8_t> ConversationTokens::trained(std::int64_t conversation) const {
  const ConversationEntry whole = entry(conversation);
  return {reinterpret_cast<const std::uint8_t*>(block_.bytes.data()) + whole.place +
              whole.tokens * kIdBytes,
          static_cast<std::size_t>(whole.tokens)};
}

}  // namespace phalanx
