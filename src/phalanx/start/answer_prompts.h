#pragma once
// The conversations of --answer-prompts, which a model answers while it is trained.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/chat_template/chat_template.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct AnswerPrompt {
  std::vector<ChatMessage> messages;  // before the answer
  std::string expected;
  std::vector<std::int32_t> ids;  // of the messages and the beginning of an answer
};

struct AnswerPrompts {
  std::vector<AnswerPrompt> prompts;
  std::vector<std::int32_t> ends;  // tokens that end an answer
};

// DataError, naming file and line, for what is no conversation that ends with an answer, for a
// prompt that does not fit, and for a file without any; ConfigError where there is no chat
// template.
AnswerPrompts read_answer_prompts(const TrainConfig& config, const Tokenizer& tokenizer);

}  // namespace phalanx
