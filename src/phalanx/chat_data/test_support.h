#pragma once
// What tests of this room share: a file of conversations and what reads it.

#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/chat/test_support.h"
#include "phalanx/chat/tokenizer_test_support.h"
#include "phalanx/chat_data/conversation_tokens.h"

namespace phalanx {

class ConversationTest : public ::testing::Test {
 protected:
  // A line with the golden conversation.
  static std::string golden_line() {
    return R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " hi "},
                {"role": "assistant", "content": " yo\n"}, {"role": "user", "content": "é?"},
                {"role": "assistant", "content": "ok"}]})";
  }
  static std::string line(const std::string& question, const std::string& answer) {
    return fmt::format(
        R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}]}})",
        question, answer);
  }
  std::string write(const std::string& name, const std::vector<std::string>& lines) const {
    std::ofstream file(directory_ / name);
    for (std::string text : lines) {
      std::erase(text, '\n');
      file << text << '\n';
    }
    return directory_ / name;
  }
  static ConversationOptions options(std::string_view chat_template = kChatMl) {
    return {.chat_template = {std::string(chat_template), "t.jinja"},
            .settings = {.special_tokens = {{"bos_token", "<s>"}}},
            .tokenizer_identity = "bytes",
            .threads = 2};
  }
  std::shared_ptr<const ConversationTokens> read(const std::string& file,
                                                 const ConversationOptions& options,
                                                 const IndexCache* cache = nullptr) const {
    return ConversationTokens::read(file, tokenizer_, options, cache, nullptr);
  }

  TemporaryDirectory directory_;
  HuggingFaceTokenizer tokenizer_ = byte_tokenizer();
};

inline std::vector<std::int32_t> ids_of(const ConversationTokens& all, std::int64_t i) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(all.entry(i).tokens));
  all.get(i, 0, ids);
  return ids;
}

}  // namespace phalanx
