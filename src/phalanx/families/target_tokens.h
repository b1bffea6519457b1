#pragma once
// The tokens that begin and end the text of a T5's decoder, in training and in generation.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct TargetTokens {
  std::int32_t begin = -1;         // -1: none
  std::vector<std::int32_t> ends;  // the first is a target's own
};

// The tokens that the files of an imported model name (they are among the arguments of its
// checkpoint); for other models, what the tokenizer's files call the decoder's first token, or
// [BOS], and [EOS]. DataError if the arguments are no ids.
TargetTokens find_target_tokens(const Tokenizer& tokenizer,
                                const std::map<std::string, std::string>& arguments);
// The same; ConfigError if one is missing.
TargetTokens target_tokens(const Tokenizer& tokenizer,
                           const std::map<std::string, std::string>& arguments);

// The id of padding, found in the same way; -1: none.
std::int32_t find_padding(const Tokenizer& tokenizer,
                          const std::map<std::string, std::string>& arguments);

}  // namespace phalanx
