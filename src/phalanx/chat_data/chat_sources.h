#pragma once
// The sources of the samples of a GPT that learns from conversations.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat_data/chosen_conversations.h"
#include "phalanx/chat_data/conversation_tokens.h"
#include "phalanx/data/gpt_sources.h"

namespace phalanx {

struct ChatSourceOptions {
  // Samples and their order; its `packing` is not kWrapped. With batch.averages_documents training
  // samples weigh conversations, and other samples tokens.
  GptSourceOptions samples;
  ConversationOptions conversations;
  Truncation truncation = Truncation::kDrop;
};

// The numbers of the conversations of a part, in the order of the file: which they are depends on
// the seed and on how many conversations there are.
std::vector<std::uint32_t> conversations_of_part(std::int64_t conversations, IndexRange part,
                                                 std::uint32_t seed);

// The words of the data flags name files. --split divides conversations by a permutation that the
// seed and their number decide; each part keeps the order of the file.
class ChatSources final : public DataSources {
 public:
  // `tokenizer` must live as long.
  ChatSources(const Tokenizer& tokenizer, ChatSourceOptions options);

  // ConfigError: no conversations are made up.
  std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request) override;
  std::int64_t tokens() const override;
  std::int64_t documents() const override;

 private:
  std::string_view element_name() const override { return "conversations"; }
  OpenedData open(const std::string& path, const SourceRequest& request) override;
  // Warns once where no trained token ends an answer.
  void tell_ends(const ChosenConversations& chosen);

  const Tokenizer& tokenizer_;
  ChatSourceOptions options_;
  std::map<std::string, std::shared_ptr<const ConversationTokens>> files_;
  bool has_told_ends_ = false;
};

}  // namespace phalanx
