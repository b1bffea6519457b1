#pragma once
// The tokenizer of bytes that tests of conversations share.

#include <string>
#include <vector>

#include "phalanx/chat/test_support.h"
#include "phalanx/tokenizer/hf/hf_tokenizer.h"

namespace phalanx {

inline HuggingFaceTokenizer byte_tokenizer(const std::vector<std::string>& merges = {}) {
  return {byte_tokenizer_json(merges), "tokenizer.json"};
}

}  // namespace phalanx
