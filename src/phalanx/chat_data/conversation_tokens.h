#pragma once
// A file of conversations, one a line (chat/conversation.h), as token ids with a mask of those that
// are trained: all of them, whole, in the order of the file. Lines are rendered and encoded once,
// by several threads; what comes of it is one block of bytes, in memory or in a file of the index
// cache, whose name follows from everything that decides it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/chat/chat_encoder.h"
#include "phalanx/chat/template_file.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct ConversationOptions {
  TemplateText chat_template;
  ChatSettings settings;
  bool parses_special_tokens = false;  // texts of special tokens in messages; else an error
  bool drops_incomplete = false;       // conversations without an answer at the end; else an error
  // Everything that decides what the tokenizer does, for the name in the cache.
  std::string tokenizer_identity;
  int threads = 1;
};

// What a line became.
struct ConversationEntry {
  std::int64_t place = 0;  // of its ids in the block; its mask is behind them
  std::int64_t line = 0;   // from 1 on
  std::int64_t tokens = 0;
  std::int64_t trained_labels = 0;  // trained tokens but for the first
};

struct ConversationCounts {
  std::int64_t conversations = 0;
  std::int64_t tokens = 0;
  std::int64_t trained_labels = 0;
  std::int64_t incomplete = 0;  // left out
  std::int64_t longest = 0;     // tokens
};

class ConversationTokens {
 public:
  // The file's, from the cache where one is given. DataError and ConfigError name the file, the
  // line and what is wrong there: what ConversationReader refuses, what the template raises, a
  // message with the text of a special token, a conversation of which the template does not show
  // what is trained. `poll` is called every so often; what it throws ends the reading.
  static std::shared_ptr<const ConversationTokens> read(const std::filesystem::path& file,
                                                        const Tokenizer& tokenizer,
                                                        const ConversationOptions& options,
                                                        const IndexCache* cache,
                                                        const std::function<void()>& poll);

  const std::string& file() const { return file_; }
  const ConversationCounts& counts() const { return counts_; }
  // As KeyUses::unused().
  const std::string& unused_keys() const { return unused_keys_; }
  std::int64_t size() const { return counts_.conversations; }
  ConversationEntry entry(std::int64_t conversation) const;
  // Ids [offset, offset + out.size()) of a conversation.
  void get(std::int64_t conversation, std::int64_t offset, std::span<std::int32_t> out) const;
  // Of each of its tokens whether it is trained, 1 or 0.
  std::span<const std::uint8_t> trained(std::int64_t conversation) const;

 private:
  ConversationTokens(std::string file, IndexBlock block);

  std::string file_;
  IndexBlock block_;
  std::int64_t entries_ = 0;  // where they begin
  ConversationCounts counts_;
  std::string unused_keys_;
};

}  // namespace phalanx
