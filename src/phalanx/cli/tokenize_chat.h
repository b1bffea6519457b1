#pragma once
// `phalanx tokenize --chat`: conversations, one a line, to text, ids and masks.

#include <string>

#include "phalanx/cli/command_io.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct TokenizeChatOptions {
  std::string file;  // of the template; empty: the tokenizer's
  std::string tokenizer_model;
  std::string arguments;
  std::string date;  // YYYY-MM-DD, or empty
  bool add_generation_prompt = false;
};

// A line {"text", "ids", "mask"} for each conversation; "mask" is null where the template does not
// show what the assistant says, and a line {"error": m} stands where it refuses the conversation.
// Special tokens in messages are parsed, as other libraries do. Returns the exit status.
int tokenize_chat(CommandIo& io, const Tokenizer& tokenizer, const TokenizeChatOptions& options);

}  // namespace phalanx
