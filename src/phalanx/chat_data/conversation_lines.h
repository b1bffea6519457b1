#pragma once
// The lines of a file of conversations, encoded by several threads.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/mapped_file.h"
#include "phalanx/chat/unused_keys.h"
#include "phalanx/chat_data/conversation_tokens.h"

namespace phalanx {

// Conversations of consecutive lines, one behind the other.
struct EncodedLines {
  struct Conversation {
    std::int64_t line = 0;  // from 1 on
    std::size_t tokens = 0;
  };
  std::vector<Conversation> conversations;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> trained;
  std::int64_t incomplete = 0;  // lines that are left out
  KeyUses keys;
};

class ConversationLines {
 public:
  // DataError for a file that is compressed or has no conversation.
  ConversationLines(const std::filesystem::path& file, const Tokenizer& tokenizer,
                    const ConversationOptions& options);

  // Passes all lines on, in order. The first error in the order of the lines ends it; errors as
  // ConversationTokens::read(). `poll` is called about once a second.
  void encode(const std::function<void(const EncodedLines&)>& take,
              const std::function<void()>& poll);

 private:
  // A part of the file, whole lines.
  struct Chunk {
    std::string_view text;
    EncodedLines encoded;  // its lines count from 1 on
    std::int64_t lines = 0;
    std::optional<std::string_view> bad_line;  // the number of it is `lines`
  };

  Chunk next_chunk();
  void encode_chunk(Chunk& chunk, ChatEncoder& encoder) const;
  // A blank line adds nothing.
  void add_line(std::string_view line, std::int64_t number, ChatEncoder& encoder,
                EncodedLines& to) const;

  std::string file_;
  const ConversationOptions& options_;
  MappedFile mapped_;
  std::string_view rest_;  // of the file
  SpecialTexts special_texts_;
  ChatEncoder encoder_;        // copied for every thread
  ConversationReader reader_;  // knows the kind of the first line
};

}  // namespace phalanx
