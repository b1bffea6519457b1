#pragma once
// What opens and closes what a T5's decoder reads and writes, in training and afterwards.

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

// Those that the files of an imported model name, which are among its checkpoint's arguments; of
// others what the tokenizer's files call the decoder's first token, or its [BOS], and its [EOS].
// DataError where the arguments are no ids.
TargetTokens find_target_tokens(const Tokenizer& tokenizer,
                                const std::map<std::string, std::string>& arguments);
// Likewise; ConfigError where one is missing.
TargetTokens target_tokens(const Tokenizer& tokenizer,
                           const std::map<std::string, std::string>& arguments);

// The id that pads, likewise found; -1: none.
std::int32_t find_padding(const Tokenizer& tokenizer,
                          const std::map<std::string, std::string>& arguments);

}  // namespace phalanx
